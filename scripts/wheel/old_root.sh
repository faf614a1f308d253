#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Tries the wheel for Python 3.11 in Debian 11 (glibc 2.31), which is older than what it was built in and has
# neither compiler nor headers: tests/install/wheel_user.py reads a folder and lets two ranks share.
# Debian 11 has no Python 3.11, so one is built from Debian 12's sources for the old C library. Needs root.
set -euo pipefail
cd "$(dirname "$0")/../.."
source scripts/wheel/pins.sh
work=$PWD/build/wheel/old
root=$work/root
say() { echo "[wheel] $*"; }
die() {
  say "$*" >&2
  exit 1
}
[ "$(id -u)" = 0 ] || die "making another system's root needs root: run this as root"
command -v mmdebstrap >/dev/null || die "mmdebstrap is not there (Debian, Ubuntu: apt-get install mmdebstrap)"
wheels=(dist/foreload-*-cp311-cp311-*"$platform".whl)
[ -e "${wheels[0]}" ] && [ ${#wheels[@]} = 1 ] || die "dist has no single wheel for Python 3.11: run make wheel"
scripts/wheel/libraries.sh

if [ ! -e "$work/python.stamp" ]; then
  say "building Python 3.11 (log: build/wheel/old/python.log)"
  scripts/wheel/debian_source.sh bookworm python3.11 python3.11_3.11.2.orig.tar.gz \
    2411c74bda5bbcfcddaf4531f66d1adc73f247f529aee981b029513aefdbf849 "$work/source"
  bin=$PWD/build/wheel/bin
  (
    cd "$work/source"
    # It would look for headers of this system's C library.
    sed -i '/^ *self.add_multiarch_paths()$/d' setup.py
    CC=$bin/cc CXX=$bin/c++ AR=$bin/ar RANLIB=$bin/ranlib CFLAGS="-O1 -g0 -fno-sanitize=all -Wno-date-time" \
      CPPFLAGS="-I$PWD/../../prefix/include" LDFLAGS="-L$PWD/../../prefix/lib" \
      ./configure --prefix=/opt/python --disable-test-modules --with-ensurepip=no
    make -j "$(nproc)"
    rm -rf "$work/python"
    make install DESTDIR="$work/python"
  ) >"$work/python.log" 2>&1 || die "Python does not build, see build/wheel/old/python.log"
  touch "$work/python.stamp"
fi

if [ ! -e "$work/root.stamp" ]; then
  say "making a root of Debian 11"
  rm -rf "$root"
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m1 '/debian/\?$')
  # numpy needs the C++ library of the system; foreload does not.
  mmdebstrap --quiet --variant=essential --include=libstdc++6 bullseye "$root" "$mirror"
  touch "$work/root.stamp"
fi

rm -rf "$root/opt" "$root/try"
mkdir -p "$root/opt" "$root/try"
cp -a "$work/python/opt/python" "$root/opt/"
build/wheel/tools/bin/python -m pip download -qq --only-binary :all: --no-deps --python-version 3.11 \
  --platform "$platform" -d "$root/try" numpy
build/wheel/tools/bin/python -m pip download -qq --no-deps -d "$root/try/tools" installer
cp "${wheels[0]}" tests/install/wheel_user.py "$root/try/"
mount --bind /proc "$root/proc"
trap 'umount "$root/proc"' EXIT
in_root() { chroot "$root" /usr/bin/env -i PATH=/usr/bin:/bin HOME=/try LC_ALL=C.UTF-8 "$@"; }
say "$(in_root /bin/sh -c '. /etc/os-release; echo "$PRETTY_NAME"'), $(in_root ldd --version | head -n 1)"
if in_root /bin/sh -c 'command -v cc gcc g++ clang'; then die "the root has a compiler"; fi
# Debian's Python leaves pip to other packages; this installs wheels as pip does.
in_root /opt/python/bin/python3 -m venv --without-pip /try/env
in_root /bin/sh -c 'for wheel in /try/*.whl; do
  PYTHONPATH=$(echo /try/tools/installer-*.whl) /try/env/bin/python -m installer "$wheel"; done'
in_root /try/env/bin/python /try/wheel_user.py read /try/train
in_root /try/env/bin/python /try/wheel_user.py share /try/train
say "the wheel works there"
