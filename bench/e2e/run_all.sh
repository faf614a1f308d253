#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Everything that needs a GPU, on a machine that has one but perhaps no network: builds foreload,
# runs the tests, measures. Steps are given by name and run in that order; one that fails or takes
# too long does not stop the others, and the status at the end says whether any did.
#
#   bench/e2e/run_all.sh pack                                     where there are packages: headers
#                                                                 and libraries go to build/carry,
#                                                                 to be copied with the project
#   bench/e2e/run_all.sh prepare tests eager tiny                 6 minutes on an H200, 16 cores
#   bench/e2e/run_all.sh prepare compiled steps                   6 minutes; 2 more if it must build
#   bench/e2e/run_all.sh prepare first losses slow ddp summary    5 minutes; likewise
#   DRY=1 bench/e2e/run_all.sh prepare eager tiny compiled steps first losses slow summary
#                                                                 all of it, small, without a GPU
#
# The steps of one line belong together where time is short; the times are estimates.
# Results are in $OUT (build/e2e/out): log.txt, train.json, losses.json, slow.json, summary.md.
# What earlier calls measured on the same machine is added to them.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
root=$PWD
self=$root/bench/e2e/run_all.sh
work=$root/build/e2e
carry=$root/build/carry
out=${OUT:-$work/out}
dry=${DRY:-}
python=${PYTHON:-python3}
mkdir -p "$work/kept" "$out"
export PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1

say() { echo "[run_all] $(date +%T) $*"; }

# Headers and libraries that the build wants and a bare machine may lack, and slowfs with its own.
pack() {
  local lib=/usr/lib/x86_64-linux-gnu header library
  rm -rf "$carry"
  mkdir -p "$carry/include" "$carry/lib/cmake" "$carry/bin"
  for header in liburing liburing.h tl xxhash.h xxh3.h fmt nlohmann CLI libdeflate.h webp zlib.h zconf.h \
    ucp ucs uct ucm openssl x86_64-linux-gnu/openssl; do
    if [ -e "/usr/include/$header" ]; then cp -rL "/usr/include/$header" "$carry/include/"; fi
  done
  for library in liburing.a liburing.so.2 libfuse3.so.3 libdeflate.so libdeflate.so.0 libwebp.so libwebp.so.7 \
    libwebpdemux.so libwebpdemux.so.2; do
    if [ -e "$lib/$library" ]; then cp -L "$lib/$library" "$carry/lib/"; fi
  done
  # Of each MPI its headers, wherever they are here.
  cp -rL $lib/openmpi/include "$carry/openmpi"
  cp -rL /usr/include/x86_64-linux-gnu/mpich "$carry/mpich"
  # What find_package() wants to know about three header-only libraries.
  local name
  for name in fmt:fmt::fmt-header-only nlohmann_json:nlohmann_json::nlohmann_json CLI11:CLI11::CLI11; do
    mkdir -p "$carry/lib/cmake/${name%%:*}"
    cat >"$carry/lib/cmake/${name%%:*}/${name%%:*}Config.cmake" <<CONFIG
if(NOT TARGET ${name#*:})
  add_library(${name#*:} INTERFACE IMPORTED)
  set_target_properties(${name#*:} PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "\${CMAKE_CURRENT_LIST_DIR}/../../../include"
    INTERFACE_COMPILE_DEFINITIONS "FMT_HEADER_ONLY=1")
endif()
CONFIG
  done
  local built
  for built in build/release build/dev; do
    if [ -x "$built/bench/slowfs/slowfs" ]; then
      cp "$built/bench/slowfs/slowfs" "$carry/bin/"
      break
    fi
  done
  [ -x "$carry/bin/slowfs" ] || say "slowfs is not built: the slow source will be a bucket"
  du -sh "$carry"
}

configure() {
  cmake -S . -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DFORELOAD_PYTHON=ON \
    -DPython_EXECUTABLE="$(command -v "$python")" \
    -Dpybind11_DIR="$("$python" -m pybind11 --cmakedir 2>/dev/null)" "$@"
}

build() {
  local found=("-DCMAKE_INCLUDE_PATH=$carry/include" "-DCMAKE_LIBRARY_PATH=$carry/lib"
    "-DFORELOAD_OPENMPI_INCLUDE=$carry/openmpi" "-DFORELOAD_MPICH_INCLUDE=$carry/mpich")
  if ! configure "${found[@]}" >"$work/cmake.log" 2>&1; then
    local name
    for name in fmt nlohmann_json CLI11; do found+=("-D${name}_DIR=$carry/lib/cmake/$name"); done
    configure "${found[@]}" >"$work/cmake.log" 2>&1 || { tail -n 30 "$work/cmake.log"; return 1; }
  fi
  grep -e '^-- Folder source' "$work/cmake.log"
  ninja -C "$work/build" >"$work/ninja.log" 2>&1 || { grep -A5 error "$work/ninja.log"; return 1; }
  mkdir -p "$work/package"
  rm -rf "$work/package/foreload"
  cp -r python/foreload "$work/package/"
  cp "$work"/build/bindings/_core*.so "$work/package/foreload/"
  cp "$(find "$work/build/src" -name foreload -type f -perm -u+x | head -n 1)" "$work/program"
}

images() {  # folder, count, classes
  if [ ! -e "$1.made" ]; then
    "${program[@]}" make-images "$1" --count "$2" --classes "$3" "${photos[@]}" && touch "$1.made"
  fi
}

prepare() {
  if [ -z "$dry" ]; then
    nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.max.sm --format=csv,noheader
    ls -l /dev/fuse 2>&1
    # The build of an earlier call is kept if it is of the same files.
    local state
    state=$(find CMakeLists.txt cmake src bindings python -type f ! -name '*.pyc' -print0 |
      sort -z | xargs -0 sha256sum | sha256sum)
    if [ "$(cat "$work/built" 2>/dev/null)" != "$state" ]; then
      build || return 1
      echo "$state" >"$work/built"
    fi
  fi
  images "$work/images" "$many" "$classes" && images "$work/classes" "$few" 10
}

train() {
  "$python" bench/e2e/train_resnet50.py "$work/images" --parts "$1" --out "$out/train.json" \
    --classes 1000 "${small_train[@]}"
}
tests() {
  FORELOAD_NEEDS_GPU=1 "$python" -m pytest -q -p no:cacheprovider \
    tests/python/test_gpu.py tests/python/test_device.py
}
eager() { train eager; }
tiny() { train tiny; }
compiled() { train compiled; }
steps() { train steps; }
first() { train first; }
losses() {
  "$python" bench/e2e/loss_curves.py "$work/classes" --out "$out/losses.json" "${small[@]}"
}
slow() {
  local own=()
  if [ -x "$carry/bin/slowfs" ]; then own=(--slowfs "$carry/bin/slowfs"); fi
  LD_LIBRARY_PATH="$carry/lib:${LD_LIBRARY_PATH:-}" "$python" bench/e2e/slow_source.py \
    "$work/classes" --out "$out/slow.json" "${own[@]}" "${small[@]}" "${small_slow[@]}"
}
ddp() {
  "$python" -m torch.distributed.run --standalone --nproc-per-node 1 examples/train_ddp.py \
    "$work/images" --epochs 2 --memory 8GiB
}
summary() {
  local more=()
  [ -e "$out/losses.json" ] && more+=(--losses "$out/losses.json")
  [ -e "$out/slow.json" ] && more+=(--slow "$out/slow.json")
  "$python" bench/e2e/summary.py "$out/train.json" "${more[@]}" >"$out/summary.md"
  cat "$out/summary.md"
}

photos=(--mean-size 105KB --pixels 487x424)
many=20480 few=5120 classes=100 small=() small_train=() small_slow=()
if [ -n "$dry" ]; then
  export OMP_NUM_THREADS=1  # machines without a GPU may be busy with other things
  photos=(--mean-size 8KB --pixels 96x72)
  many=32 few=32 classes=4
  small=(--dry --batch 8 --size 32 --epochs 2 --workers 2)
  small_train=(--dry --inputs none cpu --batch 8 --size 32 --epochs 2 --steps 4 --memory 64MiB
    --source 4e6 --touch 1048576)
  small_slow=(--rate 2e6)
  python=${PYTHON:-$root/.venv/bin/python}
  program=("$(dirname "$python")/foreload")
else
  export PYTHONPATH=$work/package
  program=("$work/program")
fi
# Seconds that a step may take at most.
declare -A limits=([prepare]=240 [tests]=120 [eager]=200 [tiny]=100 [compiled]=270 [steps]=230
  [first]=180 [losses]=120 [slow]=200 [ddp]=100 [summary]=20)

if [ -n "$dry" ]; then
  for step in "${!limits[@]}"; do limits[$step]=900; done
fi

case ${1:-} in
  pack)
    pack
    exit
    ;;
  only)  # how the loop below calls itself
    "$2"
    exit
    ;;
esac
for step in "$@"; do
  [ -n "${limits[$step]:-}" ] || { echo "no step is called $step; there are ${!limits[*]}" >&2; exit 2; }
done
cp -n "$work"/kept/* "$out/" 2>/dev/null
{
  failed=()
  for step in "$@"; do
    say "$step (at most ${limits[$step]} s)"
    begin=$SECONDS
    timeout -k 10 "${limits[$step]}" "$self" only "$step" || failed+=("$step (status $?)")
    say "$step took $((SECONDS - begin)) s"
    cp "$out"/*.json "$work/kept/" 2>/dev/null
  done
  say "failed: ${failed[*]:-none}"
  [ ${#failed[@]} = 0 ]
} 2>&1 | tee -a "$out/log.txt"
exit "${PIPESTATUS[0]}"
