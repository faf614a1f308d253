#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Prints the Pythons to build wheels for, one a line: that of .venv first, then every other version from
# 3.11 on that is found with its headers. FORELOAD_WHEEL_PYTHONS names them instead.
set -euo pipefail
cd "$(dirname "$0")/../.."
shopt -s nullglob
if [ -n "${FORELOAD_WHEEL_PYTHONS:-}" ]; then
  printf '%s\n' $FORELOAD_WHEEL_PYTHONS
  exit
fi
declare -A seen
for candidate in .venv/bin/python /usr/bin/python3.?? /usr/local/bin/python3.?? "$HOME"/.pyenv/versions/3.*/bin/python; do
  version=$("$candidate" - 2>/dev/null <<'CHECK'
import ensurepip, os, sys, sysconfig, venv
headers = os.path.join(sysconfig.get_config_var("INCLUDEPY") or "", "Python.h")
plain = sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")
if sys.version_info >= (3, 11) and sys.version_info.releaselevel == "final" and plain and os.path.exists(headers):
    print(sys.version_info.minor)
CHECK
  ) || continue
  if [ -z "$version" ] || [ -n "${seen[$version]:-}" ]; then continue; fi
  seen[$version]=1
  echo "$candidate"
done
