#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bare.sh [COMMAND...]: runs README's two commands, or COMMAND, in a Debian 12 that has nothing but what
# `mmdebstrap` puts there, make and certificates, and prints how long each took. What a machine has
# gathered over time hides what the set-up misses; this shows it.
#
# The root is made anew in build/bare each time and holds a clean copy of the last commit (BARE_TREE=work:
# of the working tree). Where apt and pip get packages from is taken from this machine's configuration.
# Needs root, and mmdebstrap (Debian: apt-get install mmdebstrap). What is mounted lives in a mount
# namespace of its own and goes with it.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD/build/bare/root
commands=("make demo" "make test")
if [ $# -gt 0 ]; then commands=("$*"); fi

die() {
  echo "[bare] $*" >&2
  exit 1
}
[ "$EUID" -eq 0 ] || die "needs root: sudo make bare"
command -v mmdebstrap >/dev/null || die "needs mmdebstrap: apt-get install mmdebstrap"

make_root() {
  local sources
  mapfile -t sources < <(grep -ls 'debian' /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources})
  rm -rf "$root"
  mkdir -p "$(dirname "$root")"
  mmdebstrap --quiet --variant=minbase --include=make,git,ca-certificates bookworm "$root" "${sources[@]}"
}

# Certificates, names of hosts, and the configuration of apt and pip.
copy_settings() {
  local file
  for file in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/ssl/certs /usr/local/share/ca-certificates \
    /etc/apt/apt.conf.d "${XDG_CONFIG_HOME:-$HOME/.config}/pip"; do
    [ -e "$file" ] || continue
    mkdir -p "$root$(dirname "$file")"
    rm -rf "${root:?}$file"
    cp -rL "$file" "$root$(dirname "$file")/"
  done
}

# Folders of this machine that pip's configuration names. An index in a folder links to files beside it.
pip_folders() {
  { python3 -m pip config list 2>/dev/null || true; } | tr "' " '\n\n' |
    sed -n 's|^file://\(.*\)/[^/]*/*$|\1|p; /^\//p' |
    while read -r path; do if [ -d "$path" ]; then echo "$path"; fi; done | sort -u
}

copy_tree() {
  mkdir -p "$root/foreload"
  if [ "${BARE_TREE:-commit}" = work ]; then
    git ls-files -z --cached --others --exclude-standard | xargs -0 tar -cf - --ignore-failed-read
  else
    git archive HEAD
  fi | tar -xf - -C "$root/foreload"
  git -C "$root/foreload" init -q
  git -C "$root/foreload" add -A
  git -C "$root/foreload" -c user.name=bare -c user.email=bare@localhost commit -qm "The tree"
}

# In a mount namespace of its own: one command in the root. Settings of pip, TLS and proxies in the
# environment go with it, nothing else does.
inside() {
  local folder
  mount --rbind "$root" "$root"  # "/" is a mount there, as on any machine
  for folder in dev proc sys; do mount --rbind "/$folder" "$root/$folder"; done
  while read -r folder; do
    mkdir -p "$root$folder"
    mount --bind -o ro "$folder" "$root$folder"
  done < <(pip_folders)
  local settings
  mapfile -t settings < <(env | grep -E '^(PIP_|SSL_|REQUESTS_CA|CURL_CA|[a-z]*_proxy=|[A-Z]*_PROXY=)' || true)
  chroot "$root" /usr/bin/env -i "${settings[@]}" HOME=/root TERM=dumb LANG=C.UTF-8 \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    bash -c 'cd /foreload && exec bash -c "$1"' - "$1"
}

if [ "${1:-}" = --inside ]; then
  inside "$2"
  exit
fi

SECONDS=0
make_root
copy_settings
copy_tree
echo "[bare] a new Debian 12 with make, git and certificates: $SECONDS s; $(nproc) CPUs"
declare -A took
status=0
for command in "${commands[@]}"; do
  SECONDS=0
  echo "[bare] \$ $command"
  unshare --mount --propagation private "$0" --inside "$command" || status=$?
  took[$command]=$SECONDS
  [ $status -eq 0 ] || break
done
for command in "${commands[@]}"; do
  [ -z "${took[$command]:-}" ] ||
    printf '[bare] %s: %d min %02d s\n' "$command" $((took[$command] / 60)) $((took[$command] % 60))
done
[ $status -eq 0 ] || die "failed with status $status"
