#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes build/wheel/tools, an environment with a compiler for old C libraries (zig) and auditwheel, and
# build/wheel/bin, that compiler under the names that build systems expect.
set -euo pipefail
cd "$(dirname "$0")/../.."
source scripts/wheel/pins.sh
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
stamp=build/wheel/tools/.stamp
if [ "$stamp" -nt scripts/wheel/requirements-tools.txt ] && [ "$stamp" -nt scripts/wheel/tools.sh ] &&
  [ "$stamp" -nt scripts/wheel/pins.sh ]; then exit; fi

echo "[wheel] installing zig and auditwheel into build/wheel/tools"
${PYTHON:-.venv/bin/python} -m venv --clear build/wheel/tools
build/wheel/tools/bin/python -m pip install -qq -r scripts/wheel/requirements-tools.txt
zig=$(build/wheel/tools/bin/python -c 'import os, ziglang; print(os.path.dirname(ziglang.__file__))')/zig

mkdir -p build/wheel/bin
for tool in cc c++ ar ranlib; do
  case $tool in
    # The linker refuses an option of the usual ones, which the list of exported symbols replaces.
    c*) call="$tool -target x86_64-linux-gnu.$glibc \"\${@/#-Wl,--exclude-libs,ALL/-Wl,--as-needed}\"" ;;
    *) call="$tool \"\$@\"" ;;
  esac
  cat >build/wheel/bin/$tool <<WRAPPER
#!/bin/bash
export ZIG_GLOBAL_CACHE_DIR=$PWD/build/wheel/zig-cache ZIG_LOCAL_CACHE_DIR=$PWD/build/wheel/zig-cache
exec "$zig" $call
WRAPPER
  chmod +x build/wheel/bin/$tool
done
touch "$stamp"
