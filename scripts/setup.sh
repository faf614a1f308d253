#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Sets up what foreload is built, run and tested with. The Makefile calls one step at a time and
# keeps the stamps that make a second run quick:
#   setup.sh system [tests|wheel]   compiler, CMake, Python and libraries; those of the tests or of wheels too
#   setup.sh venv             the virtual environment .venv
#   setup.sh build-tools      what pip needs to build the package, and numpy
#   setup.sh plot-tools       what foreload plot and foreload report draw with
#   setup.sh dev-tools        requirements-dev.txt
#   setup.sh package          foreload itself, built in build/python
set -euo pipefail
cd "$(dirname "$0")/.."
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

say() { echo "[setup] $*"; }
die() {
  echo "[setup] $*" >&2
  exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

python_works() {
  have "$1" && "$1" - 2>/dev/null <<'CHECK'
import ensurepip, os, sys, sysconfig, venv
headers = os.path.join(sysconfig.get_config_var("INCLUDEPY") or "", "Python.h")
sys.exit(not (sys.version_info >= (3, 10) and os.path.exists(headers)))
CHECK
}

# Prints the Python to use: $PYTHON if set, else the first on PATH or the system's that works.
find_python() {
  local candidate
  for candidate in ${PYTHON:-python3 /usr/bin/python3}; do
    if python_works "$candidate"; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

# Prints the Debian packages, of those needed, that are not there. A tool found by other means
# needs no package.
missing_packages() {
  local wanted=(libfmt-dev nlohmann-json3-dev libcli11-dev libexpected-dev libxxhash-dev liburing-dev
    libjpeg-dev zlib1g-dev libdeflate-dev libwebp-dev libucx-dev libssl-dev libopenmpi-dev libmpich-dev)
  if [ "${1:-}" = tests ]; then
    wanted+=(libgtest-dev libbenchmark-dev libfuse3-dev fuse3 pkg-config)
    wanted+=(openmpi-bin mpich)                                 # ranks that talk over MPI
    wanted+=(iproute2)                                          # networks for them to fail in
    wanted+=(curl zip)                                          # curl brings libcurl, for http:// data
    wanted+=(tmux)                                              # a terminal for foreload watch
    case "$(. /etc/os-release 2>/dev/null && echo "$ID")" in
      debian) wanted+=(chromium) ;;  # a browser for pages; elsewhere it is no package
    esac
    wanted+=(clang)                                             # for its fuzzer, whose run-time
    case "$(. /etc/os-release 2>/dev/null && echo "$ID:$VERSION_ID")" in  # part is a package in
      debian:11 | ubuntu:20.* | ubuntu:22.*) ;;                             # newer systems only
      *) wanted+=(libclang-rt-dev) ;;
    esac
  fi
  if [ "${1:-}" = tests ] || [ "${1:-}" = wheel ]; then
    wanted+=(nasm dpkg-dev)  # what is inside a wheel is built from source
  fi
  if ! have dpkg-query; then wanted=(); fi  # not Debian: CMake names the libraries it misses
  have g++ || wanted+=(g++)
  have make || wanted+=(make)
  have cmake || wanted+=(cmake)
  have ninja || wanted+=(ninja-build)
  find_python >/dev/null || wanted+=(python3 python3-venv python3-dev)
  local installed="" package
  if have dpkg-query; then
    installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${wanted[@]}" 2>/dev/null || true)
  fi
  for package in "${wanted[@]}"; do
    grep -qxF "$package installed" <<<"$installed" || echo "$package"
  done
}

system() {
  local missing as_root=()
  mapfile -t missing < <(missing_packages "$@")
  if [ ${#missing[@]} -gt 0 ]; then
    if [ "$EUID" -ne 0 ]; then as_root=(sudo -n); fi
    if ! have apt-get; then
      die "install these with your package manager (Debian's names), then run make again: ${missing[*]}"
    elif [ "$EUID" -ne 0 ] && ! sudo -n true 2>/dev/null; then
      die "run this, then make again: sudo apt-get update && sudo apt-get install -y ${missing[*]}"
    fi
    say "installing system packages (log: build/setup-apt.log): ${missing[*]}"
    mkdir -p build
    local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300)
    if ! { "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends "${missing[@]}"; } \
      >build/setup-apt.log 2>&1; then
      tail -n 20 build/setup-apt.log >&2
      die "apt-get failed, see above; to do it by hand: sudo apt-get install -y ${missing[*]}"
    fi
  fi
  find_python >/dev/null ||
    die "no Python 3.10 or newer with venv and headers found; set PYTHON=/path/to/python3"
}

venv() {
  local python
  python=$(find_python) || die "no usable Python; run scripts/setup.sh system"
  say "creating .venv with $("$python" --version)"
  "$python" -m venv --clear .venv
}

pip_install() { .venv/bin/python -m pip install -qq "$@"; }

build_tools() {
  local requirements
  requirements=$(sed -n '/^\[build-system\]/,/^$/s/^requires = \[\(.*\)\]$/\1/p' pyproject.toml | tr -d '",')
  [ -n "$requirements" ] || die "pyproject.toml: no one-line 'requires' under [build-system]"
  say "installing numpy and build tools into .venv: $requirements"
  # shellcheck disable=SC2086  # one word per requirement
  pip_install numpy $requirements
}

plot_tools() {
  say "installing matplotlib into .venv"
  pip_install matplotlib
}

dev_tools() {
  say "installing test tools into .venv (torch is large: minutes on a slow line)"
  pip_install -r requirements-dev.txt
  # Alone: what it names as torch may be another build than the one that is there.
  pip_install --no-deps "$(sed -n 's/^# *without dependencies: *//p' requirements-dev.txt)"
}

# pip hides the compiler's progress unless it is very talkative: show ninja's lines and keep the rest
# in a log.
package() {
  local log=build/setup-package.log
  say "building and installing the package (log: $log)"
  mkdir -p build
  if ! SKBUILD_BUILD_DIR=build/python .venv/bin/python -m pip install --verbose \
    --no-build-isolation --no-deps --force-reinstall . 2>&1 |
    tee "$log" | sed -un 's/^ *\(\[[0-9]*\/[0-9]*\] \)/\1/p'; then
    tail -n 40 "$log" >&2
    die "the package does not build, see above"
  fi
}

step=${1:-}
case $step in
  system) system "${2:-}" ;;
  venv | build-tools | plot-tools | dev-tools | package)
    "${step//-/_}"
    mkdir -p .venv/.stamps
    touch ".venv/.stamps/$step"
    ;;
  *) die "usage: scripts/setup.sh system [tests|wheel] | venv | build-tools | plot-tools | dev-tools | package" ;;
esac
