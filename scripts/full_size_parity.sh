#!/usr/bin/env bash
# Judges the engine on a full-size checkpoint, over a corpus: against the published package, of its own smaller files
# against F32, and of its set-ups against each other. Hours for a large model; started again, it goes on where it stopped.
#
# usage: scripts/full_size_parity.sh CHECKPOINT CORPUS.jsonl SUBSET NAME WORK_FOLDER
#   SUBSET  all, or english for a model of English
#   NAME    of the model, and of the results: WORK_FOLDER/NAME-*.json
#
# PYTHON is the interpreter with scripts/requirements.txt (.venv/bin/python), TOOLS the folder of the tools (target/release).
# A checkpoint of the real shape: laya-convert synth --arch mmbert-base --seed 1 --dtype f32 --outliers
# --tokenizer tokenizer.json -o CHECKPOINT
set -euo pipefail
checkpoint=$1 corpus=$2 subset=$3 name=$4 work=$5
scripts=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-$scripts/../.venv/bin/python}
tools=$(cd "${TOOLS:-$scripts/../target/release}" && pwd)
mkdir -p "$work"

# A run that is whole is left alone, one that is not goes on.
is_whole() { [ -f "$1" ] && tail -n 1 "$1" | grep -q '^{"seal"'; }
engine_run() { # OUTPUT MODEL [ARGUMENTS]...
    local output=$1 model=$2
    shift 2
    is_whole "$output" || "$tools/parity-gate" run "$corpus" --subset "$subset" -m "$model" -o "$output" --resume "$@"
}
judge() { # RESULTS [ARGUMENTS]...: a verdict of fail is a result, not the end
    local results=$1
    shift
    # In the folder, so that results name the runs without it.
    (cd "$work" && "$tools/parity-gate" compare "$@" --json "$results") || [ $? -le 2 ]
}

for type in f32 f16 q8_0-mixed; do
    file=$work/$name-$type.gguf
    how=(--outtype "$type")
    [ "$type" = q8_0-mixed ] && how=(--recipe "$type")
    [ -f "$file" ] || "$tools/laya-convert" "$checkpoint" -o "$file" "${how[@]}" --model-name "$name" >/dev/null
    engine_run "$work/$name-$type.jsonl" "$file"
done
engine_run "$work/$name-single.jsonl" "$work/$name-f32.gguf" --threads 1 --plan sequential
reference=$work/$name-reference.jsonl
is_whole "$reference" ||
    "$python" "$scripts/parity_reference.py" run "$checkpoint" "$corpus" --subset "$subset" -o "$reference" --resume

judge "$name-1-strict.json" "$name-reference.jsonl" "$name-f32.jsonl" --gate strict-f32
judge "$name-2-class.json" "$name-f32.jsonl" "$name-f16.jsonl" "$name-q8_0-mixed.jsonl" --gate f16-class \
    --allow-identity-mismatch
judge "$name-3-exact.json" "$name-f32.jsonl" "$name-single.jsonl" --gate bit-exact
"$tools/parity-gate" report "$work/$name"-[0-9]-*.json
