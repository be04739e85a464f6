#!/usr/bin/env bash
# Everything that a machine with a GPU is asked for, in one command: unpack, test, measure, and a short table at the end.
#
#   here:   benchmarks/gpu_check.sh pack            makes .gpu/ (site, made media, shared media); PYTHON names one with PyAV;
#                                                    lay films of 1080p and 340×256 into .gpu/media as large_*.mp4 and small_*.mp4
#   there:  bash benchmarks/gpu_check.sh PART...    parts: tests stress decode ops flow start memory jpeg export repeat; by default the first three
#
# Peers are measured where their wheels were unpacked to /tmp/site (torchcodec, SPDL) and /tmp/dali before; how:
# ../shared/tools/PEERS.md. WORKERS are those of pytest (12), SHARE=0.5 halves the windows of the benchmarks,
# TIMES=20 is how often the repeat part runs each test of exits, threads, forks and damage, by LOAD=24 processes (one and a
# half for a core), SECONDS_OF_REPEAT=240 its time;
# SECONDS_OF_STRESS=60 is the time of the stress part (150), and STRESS more that it is told, as --processes 8 --askers 32.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2

pack() {
  ../shared/tools/gpu_site.sh platformdirs click simplejpeg rich deflate google-crc32c
  "${PYTHON:-python3}" -m data_scripts.make_videos --out .media > /dev/null || exit 1
  "${PYTHON:-python3}" -m data_scripts.encodings --out .media/encodings || exit 1
  tar -cJf .gpu/made.tar.xz .media
  mkdir -p .gpu/shared/video .gpu/media
  cp ../shared/media/MANIFEST.tsv .gpu/shared/
  for folder in codec derived odd; do cp -r "../shared/media/video/$folder" .gpu/shared/video/; done
  du -sh .gpu
}

if [ "${1:-}" = pack ]; then pack; exit; fi

mkdir -p /tmp/site
[ -d /tmp/site/av ] || tar -xJf .gpu/site.tar.xz -C /tmp/site
[ -d .media ] || tar -xJf .gpu/made.tar.xz
export PYTHONPATH="/tmp/site:$PWD" SEQPIPE_MEDIA="$PWD/.gpu/shared" SEQPIPE_CACHE_DIR=/tmp/seqpipe_cache
rows=() failed=0
films=(--large .gpu/media/large_*.mp4 --small .gpu/media/small_*.mp4)

# run TITLE COMMAND...: keeps what it says in $OUT, shows the end of it; its tables go to the end of ours
run() {
  local title=$1 begin=$SECONDS code; shift
  local said="${OUT:-/tmp}/$title.txt"
  "$@" > "$said" 2>&1; code=$?
  tail -n 40 "$said" | cut -c1-400
  mapfile -t table < <(grep -E '^\|' "$said")
  rows+=("| $title | exit $code | $((SECONDS - begin)) s | $(tail -n 1 "$said" | cut -c1-100) |" "${table[@]}")
  [ $code -eq 0 ] || failed=1
}

part_tests() {
  # by SIGINT pytest still says what has failed; what measures the GPU's memory has the GPU to itself
  local stress=tests/video/test_stress.py alone=tests/flow/test_nvofa_on_gpu.py::test_ten_thousand_pairs_of_changing_sizes
  SEQPIPE_REQUIRE_GPU=1 run tests timeout -s INT 300 python3 -m pytest -p no:benchmark -n "${WORKERS:-12}" -q -rfE --tb=short -m gpu tests --ignore $stress --deselect $alone
  SEQPIPE_REQUIRE_GPU=1 run test_stress timeout -s INT 120 python3 -m pytest -p no:benchmark -q -rfE --tb=short -m gpu $stress $alone
}
part_stress() {
  local seconds=${SECONDS_OF_STRESS:-150}
  # shellcheck disable=SC2086  # several words
  run stress timeout $((seconds + 100)) python3 -m tests.deep.stress --requests 100000 --device cuda --decode auto \
    --seconds "$seconds" ${STRESS:-}
}
# Tests of exits, threads, forks and damage, each many times and more at once than there are cores: one that fails one time
# in twenty is found so. Its table counts the failures of each test; ON_CPU=1 takes those that need no GPU.
part_repeat() { run repeat repeated; }
repeated() {
  local code load=${LOAD:-$(($(nproc) * 3 / 2))} mark=gpu said
  [ -n "${ON_CPU:-}" ] && mark="not gpu"
  export TIMES=${TIMES:-20} PATIENCE=${PATIENCE:-4}
  said=$(mktemp)
  timeout -s INT "${SECONDS_OF_REPEAT:-240}" python3 -m pytest -p no:benchmark -p tests.support.repeated -n "$load" --dist worksteal -q -rfE \
    --tb=short -m "$mark" tests/readers/test_exit.py tests/video/test_fuzz.py tests/readers/test_interrupts.py \
    tests/video/gpu/test_several_gpus.py > "$said" 2>&1
  code=$?
  cat "$said"
  printf '\n| failures of %s | test |\n|---|---|\n' "$TIMES"
  grep -E '^(FAILED|ERROR) ' "$said" | sed -E 's/^[A-Z]+ //; s/ - .*//; s/([[-])[0-9]+(-|\])/\1*\2/' | sort | uniq -c | sort -rn |
    sed -E 's/^ *([0-9]+) (.*)/| \1 | \2 |/'
  grep -E '(passed|failed|error)' "$said" | tail -n 1
  rm "$said"
  return $code
}
part_decode() { run decode timeout 500 python3 -m benchmarks.gpu_decode "${films[@]}" --job large --job small --share "${SHARE:-0.6}"; }
part_ops() { run ops timeout 200 python3 -m benchmarks.ops --device cuda --job all --job chain --job published; }
part_start() { run start timeout 200 python3 -m benchmarks.gpu_memory --job start --many .gpu/media/small_*.mp4; }
part_memory() { run memory timeout 200 python3 -m benchmarks.gpu_memory --job memory --large .gpu/media/large_*.mp4; }
part_jpeg() { run jpeg timeout 100 python3 -m benchmarks.gpu_jpeg; }
part_flow() { run flow timeout 200 python3 -m benchmarks.flow --video .gpu/media/large_*.mp4; }
part_export() { run export timeout 400 python3 -m benchmarks.gpu_export --large .gpu/media/large_*.mp4 --folder /dev/shm/export; }

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
cuda=$(python3 -c 'import nvidia, os; print(os.path.join(list(nvidia.__path__)[0], "cu13", "lib"))' 2> /dev/null)
[ -d /tmp/site/ff ] && export LD_LIBRARY_PATH="/tmp/site/ff:/tmp/site/av.libs:$cuda"
[ -d /tmp/dali ] && export PYTHONPATH="$PYTHONPATH:/tmp/dali"
for part in "${@:-tests stress decode}"; do
  for name in $part; do "part_$name"; done
done
printf '\n| part | ended | took | said last |\n|---|---|---|---|\n'
printf '%s\n' "${rows[@]}"
exit $failed
