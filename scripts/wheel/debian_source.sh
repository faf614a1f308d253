#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Unpacks a Debian source package, patches applied, into FOLDER:
#   debian_source.sh SUITE PACKAGE ORIGIN SHA256 FOLDER
# ORIGIN is the file of the original sources, which must have that SHA-256. Packages come from the
# mirror that this system's apt is set up for; the system's own lists stay as they are.
set -euo pipefail
cd "$(dirname "$0")/../.."
suite=$1 package=$2 origin=$3 sha256=$4 folder=$5
die() {
  echo "[wheel] $*" >&2
  exit 1
}

mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m1 '/debian/\?$') ||
  die "apt is not set up for a mirror of Debian, which has the sources of $package"
root=$PWD/build/wheel/apt/$suite
mkdir -p "$root"/lists/partial "$root"/cache
echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$root/sources.list"
apt=(apt-get -qq -o "Dir::Etc::sourcelist=$root/sources.list" -o Dir::Etc::sourceparts=-
  -o "Dir::State::lists=$root/lists" -o "Dir::Cache=$root/cache" -o APT::Sandbox::User="$(id -un)")
(
  flock 9  # several packages are fetched at a time
  [ -n "$(find "$root/lists" -name '*Sources*' -mmin -60)" ] || "${apt[@]}" update
) 9>"$root/lock"

download=$PWD/build/wheel/download/$package
rm -rf "$download" "$folder"
mkdir -p "$download" "$(dirname "$folder")"
folder=$(realpath -m "$folder")
cd "$download"
"${apt[@]}" source --download-only "$package"
[ -f "$origin" ] || die "Debian $suite has $(ls -- *.orig.tar.?z) and not $origin any more: change scripts/wheel/pins.sh"
echo "$sha256  $origin" | sha256sum --quiet -c - || die "$origin is not the pinned one: not used"
dpkg-source --no-check -x -- *.dsc "$folder" >/dev/null
