#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs every file of dist as a user does, with pip and what it depends on, into an environment that has nothing
# else: each wheel with its Python, and the source distribution, which is compiled. tests/install/wheel_user.py then
# reads a folder and lets two ranks share.
set -euo pipefail
cd "$(dirname "$0")/../.."
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() {
  echo "[wheel] $*" >&2
  exit 1
}

# try_file PYTHON FILE
try_file() {
  local environment=$work/env log=build/wheel/dist-test.log
  rm -rf "$environment" "$work/train"
  "$1" -m venv "$environment"
  if ! "$environment/bin/python" -m pip install --verbose "$2" >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    die "$2 cannot be installed, see $log"
  fi
  for what in read share; do
    env -i HOME="$work" PATH="$environment/bin" \
      "$environment/bin/python" -I tests/install/wheel_user.py "$what" "$work/train" >/dev/null ||
      die "$2 does not work with $("$1" --version)"
  done
  echo "[wheel] $2 works with $("$1" --version)"
}

mapfile -t pythons < <(scripts/wheel/interpreters.sh)
[ ${#pythons[@]} -gt 0 ] || die "no Python 3.11 or newer with headers found; set FORELOAD_WHEEL_PYTHONS=/path/to/python3"
for python in "${pythons[@]}"; do
  tag=$("$python" -c 'import sys; print(f"cp{sys.version_info.major}{sys.version_info.minor}")')
  wheels=(dist/foreload-*-"$tag"-"$tag"-*.whl)
  [ -e "${wheels[0]}" ] && [ ${#wheels[@]} = 1 ] || die "dist has no single wheel for $("$python" --version): run make wheel"
  try_file "$python" "${wheels[0]}"
done
archives=(dist/foreload-*.tar.gz)
[ -e "${archives[0]}" ] && [ ${#archives[@]} = 1 ] || die "dist has no single source distribution: run make wheel"
try_file "${pythons[0]}" "${archives[0]}"
