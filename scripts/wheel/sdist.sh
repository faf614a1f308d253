#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes dist/foreload-*.tar.gz from the tree as it is.
set -euo pipefail
cd "$(dirname "$0")/../.."
scripts/wheel/tools.sh
build/wheel/tools/bin/python -m build --sdist --outdir dist . >build/wheel/sdist.log 2>&1 || {
  tail -n 30 build/wheel/sdist.log >&2
  exit 1
}
ls -l dist/foreload-*.tar.gz | awk '{ printf "[wheel] %s (%.1f MB)\n", $NF, $5 / 1e6 }'
