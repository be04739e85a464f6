#!/usr/bin/env bash
# Everything that a machine with a GPU is asked for, in one command: unpack, test, measure, and a short table at the end.
#
#   here:   tests/bench/gpu_check.sh pack            makes .gpu/ (site, made media, shared media); PYTHON names one with PyAV;
#                                                    lay films of 1080p and 340×256 into .gpu/media as large_*.mp4 and small_*.mp4
#   there:  bash tests/bench/gpu_check.sh PART...    parts: tests stress decode ops flow start memory jpeg export repeat; by default the first three
#
# Peers are measured where their wheels were unpacked to /tmp/site (torchcodec, SPDL) and /tmp/dali before; how:
# ../shared/tools/PEERS.md. WORKERS are those of pytest (12), SHARE=0.5 halves the windows of the benchmarks,
# TIMES=20 and SECONDS_OF_REPEAT=240 are how often and how long the tests of exits, threads, forks and damage are repeated;
# SECONDS_OF_STRESS=60 is the time of the stress part (150), and STRESS more that it is told, as --processes 8 --askers 32.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2

pack() {
  ../shared/tools/gpu_site.sh platformdirs click simplejpeg rich
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
  local stress=tests/video/test_stress.py
  SEQPIPE_REQUIRE_GPU=1 run tests timeout -s INT 300 python3 -m pytest -p no:benchmark -n "${WORKERS:-12}" -q -rfE --tb=short -m gpu tests --ignore $stress
  SEQPIPE_REQUIRE_GPU=1 run test_stress timeout -s INT 120 python3 -m pytest -p no:benchmark -q -rfE --tb=short -m gpu $stress
}
part_stress() {
  local seconds=${SECONDS_OF_STRESS:-150}
  # shellcheck disable=SC2086  # several words
  run stress timeout $((seconds + 100)) python3 -m tests.bench.stress --requests 100000 --device cuda --decode auto \
    --seconds "$seconds" ${STRESS:-}
}
# Tests of exits, threads, forks and damage, again and again, more of them at once than there are cores; those that fail one
# time in twenty are found so. A table of failures is said last; what each failure said is in $OUT/repeat.txt.
part_repeat() { run repeat repeated; }
repeated() {
  local folder begin=$SECONDS marks=(-m gpu) ended=0
  local load=$(($(nproc) * 3 / 2)) times=${TIMES:-20} seconds=${SECONDS_OF_REPEAT:-240}
  [ -n "${ON_CPU:-}" ] && marks=(-m "not gpu")
  folder=$(mktemp -d)
  local tests=(tests/readers/test_exit.py tests/video/test_fuzz.py tests/readers/test_interrupts.py tests/readers/test_lifetime.py
    tests/video/test_engine.py tests/video/test_children.py tests/video/test_shared_reader.py tests/video/test_damage.py
    tests/video/gpu/test_several_gpus.py tests/video/gpu/test_memory.py tests/ops/test_threads.py)
  for ((round = 1; round <= times; round++)); do
    [ $((SECONDS - begin)) -ge "$seconds" ] && break
    timeout -s INT $((seconds - (SECONDS - begin) + 30)) python3 -m pytest -p no:benchmark -p no:cacheprovider -n "$load" -q -rfE --tb=short \
      "${marks[@]}" "${tests[@]}" > "$folder/$round.txt" 2>&1
    case $? in 0 | 5) ;; *) ended=1; cat "$folder/$round.txt" ;; esac
  done
  printf '\n| failures | test |\n|---|---|\n'
  cat "$folder"/*.txt | grep -E '^(FAILED|ERROR) ' | sed -E 's/^[A-Z]+ //; s/ - .*//' | sort | uniq -c | sort -rn | sed -E 's/^ *([0-9]+) (.*)/| \1 | \2 |/'
  rm -r "$folder"
  echo "$((round - 1)) of $times rounds with $load at once in $((SECONDS - begin)) s"
  return $ended
}
part_decode() { run decode timeout 500 python3 -m tests.bench.gpu_decode "${films[@]}" --job large --job small --share "${SHARE:-0.6}"; }
part_ops() { run ops timeout 200 python3 -m tests.bench.ops --device cuda --job all --job chain --job published; }
part_start() { run start timeout 200 python3 -m tests.bench.gpu_memory --job start --many .gpu/media/small_*.mp4; }
part_memory() { run memory timeout 200 python3 -m tests.bench.gpu_memory --job memory --large .gpu/media/large_*.mp4; }
part_jpeg() { run jpeg timeout 100 python3 -m tests.bench.gpu_jpeg; }
part_flow() { run flow timeout 200 python3 -m tests.bench.flow --video .gpu/media/large_*.mp4; }
part_export() { run export timeout 400 python3 -m tests.bench.gpu_export --large .gpu/media/large_*.mp4 --folder /dev/shm/export; }

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
