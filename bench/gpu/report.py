#!/usr/bin/env python3
"""Turns the output folder of bench/gpu/gpu_models.sh into one JSON file and one page.

usage: report.py OUTPUT_FOLDER RESULTS_FOLDER       writes RESULTS_FOLDER/DATE-cuda-models-GPU.json and .md
"""

import json
import os
import sys

# What other engines took on the same kind of GPU on 2026-11-20, and what is aimed at; ms, or "tok/s".
KNOWN = {
    "BERT-base B1 T32": ("0.69 torch.compile", "0.25"),
    "BERT-base B1 T128": ("0.76 torch.compile", "0.30"),
    "BERT-base B100 T32": ("1.97 best of eager and compile", "1.31"),
    "BERT-base B500 T32": ("7.85", "5.2"),
    "BERT-base B256 T128": ("14.52", "9.7"),
    "BERT-base B32 T512": ("7.98", "5.3"),
    "BERT-base, 512 ragged": ("22.1 flash varlen", "12"),
    "transformer-base beam 4, 32 tokens, B1 float16": ("38.5 CTranslate2", "6"),
    "transformer-base beam 4, 32 tokens, B1 float32": ("38.6 CTranslate2", "8"),
    "transformer-base beam 4, 128 tokens, B1": ("153 CTranslate2", "24"),
    "transformer-base beam 4, 32 tokens, B64": ("45.1 CTranslate2", "14"),
    "transformer-base beam 4, 32 tokens, B256": ("83.2 CTranslate2", "32"),
    "transformer-base greedy, 32 tokens, B1 ": ("30.4 CTranslate2", "5"),
    "transformer-base greedy, 32 tokens, B256": ("40.6 CTranslate2", "16"),
    "transformer-big beam 4, 32 tokens, B1": ("38.1 CTranslate2", "9"),
    "transformer-big beam 4, 32 tokens, B64": ("57.4 CTranslate2", "24"),
    "GPT-2 124M, 32 tokens in, 128 out, B1 ": ("751 tok/s static cache + compile", "3,000 tok/s"),
    "GPT-2 124M, 32 tokens in, 128 out, B32": ("20.5k tok/s CTranslate2", "60,000 tok/s"),
    "GPT-2 124M, 256 requests": ("21.4k tok/s transformers' own with a flash kernel", "70,000 tok/s"),
}


def read(folder, name):
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return json.load(file) if name.endswith(".json") else file.read().splitlines()


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows])


def golden_rows(golden):
    """gtest's JSON: what each test recorded."""
    meta = {"name", "value_param", "file", "line", "status", "result", "timestamp", "time", "classname", "type_param"}
    for suite in golden["testsuites"]:
        for test in suite["testsuite"]:
            figures = {key: float(value) for key, value in test.items() if key not in meta and key != "failures"}
            yield test["name"], {**figures, "passed": "failures" not in test and test["result"] == "COMPLETED"}


def golden_page(golden):
    parts = []
    for name, figures in golden:
        shown = ", ".join(f"{key.replace('_', ' ')} {value:.6g}" for key, value in figures.items() if key != "passed")
        parts.append(f"- {name}: {'passed' if figures['passed'] else 'FAILED'}; {shown}")
    return "\n".join(parts)


def load_page(load):
    rows = []
    for number, part in enumerate(load["rounds"], 1):
        total, memory = part["total"], part["memory_mib"]
        endings = ", ".join(f"{count} {name}" for name, count in total["endings"].items())
        rows.append([number, total["requests"], endings, f"{part['verification']['checked']} compared, "
                     f"{part['verification']['mismatches']} differ", f"{total['p99_ms']:.0f}",
                     f"{memory['before']} / {memory['peak']} / {memory['after']}"])
    head = ["round", "requests", "endings", "answers", "p99 ms", "GPU memory MiB before / peak / after"]
    return (f"{table(head, rows)}\n\nGPU memory before the server: {load['idle_mib']} MiB, with the models loaded: "
            f"{load['loaded_mib']} MiB (nvidia-smi, whole GPU). Left afterwards: {load['left']}.")


def parity_page(parity):
    values, answers = [], []
    for name, part in parity.items():
        for dtype, entry in part["values"].items():
            own, peer = entry["beamline"], entry["transformers"]
            values.append([name, dtype, f"{own['relative']:.2e}", f"{peer['relative']:.2e}", f"{own['largest']:.2e}",
                           f"{peer['largest']:.2e}", "yes" if entry["ok"] else "NO"])
        for dtype, entry in part.get("answers", {}).items():
            gap, error = entry.get("widest_gap_left"), entry.get("logit_error")
            answers.append([name, dtype, f"{entry['same']} of {entry['prompts']}",
                            "-" if gap is None else f"{gap:.2e}", "-" if error is None else f"{error:.2e}",
                            "yes" if entry["ok"] else "NO"])
    first = table(["model", "type", "relative error", "transformers'", "largest error", "transformers'", "accepted"],
                  values)
    second = table(["model", "type", "same ids as float32", "widest gap where ids leave", "logit error", "accepted"],
                   answers)
    return first + "\n\n" + second


def known(row):
    text = f"{row['work']} {row['dtype']}"
    return next((value for key, value in KNOWN.items() if text.startswith(key)), ("-", "-"))


def timing_page(timing):
    rows = []
    for row in timing:
        peers = ", ".join(f"{value:.2f} {name}" for name, value in row["peers_ms"].items())
        other, target = known(row)
        rows.append([row["work"], row["dtype"], f"{row['beamline_ms']:.2f}", f"{row['beamline_tokens_per_s']:,.0f}",
                     peers, f"{row['speedup']:.2f}x", other, target])
    return table(["work", "type", "Beamline ms", "tok/s", "PyTorch ms, same run", "to the best of these",
                  "others, 2026-11-20", "target"], rows)


def page(result):
    return f"""# Whole models on one GPU: right, and how fast

{'; '.join(result['machine'])}.
Command: `{result['command']}`

```
{chr(10).join(result['table'])}
```

## Golden files in float16 and bfloat16

The demo models, same device (`tests/engine/reduced_precision_test.cc`). `logit error` is the largest difference of any
logit between the type and float32, forced through the golden ids; `widest gap left` the largest float32 gap between
the two best tokens at which a row left the golden ids. chrF: character 1- to 6-grams, beta 2, of the whole corpus.
float32 has identical ids (`golden_float32`, TF32 off).

{golden_page(result['golden'])}

## Load over gRPC

`bench/workloads/soak.yaml`, 64 clients; a fifth of the calls is cancelled and a tenth has a short deadline (those
that were over by then ended ok); every answer is compared with the one given alone. A round is 1,000 requests.

{load_page(result['load'])}

## Next to transformers

Random checkpoints (`bench/gpu/make_checkpoints.py`), the same GPU. Errors are against transformers in float64;
accepted: at most twice the relative error that transformers makes in the same type.

{parity_page(result['parity'])}

## Time next to PyTorch

Medians. Beamline through the whole engine, PyTorch (eager, sdpa attention; generate()) without reading results
back; the ratio is to the faster of its two ways. Translations read as many tokens as they write; answers have exactly the length asked for. The Llama-8B rows
of the targets need a family that Beamline does not have.

{timing_page(result['timing'])}
"""


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder, results = sys.argv[1:]
    machine, golden = read(folder, "machine.txt"), read(folder, "golden_half.json")
    # "2026-11-21T20:29Z" and "NVIDIA H200, 580.159.04, 143771 MiB", as bundle.sh names results
    prefix = os.path.join(results, f"{machine[0][:10]}-cuda-models-{machine[1].split(',')[0].split()[1].lower()}")
    result = {"machine": machine,
              "command": "bench/gpu/gpu_models.sh OUTPUT (in the bundle of scripts/gpu_bundle.sh)",
              "table": read(folder, "table.txt"), "golden": list(golden_rows(golden)) if golden else [],
              "load": read(folder, "load.json"), "parity": read(folder, "parity.json"),
              "timing": read(folder, "timing.json")}
    with open(prefix + ".json", "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
        file.write("\n")
    with open(prefix + ".md", "w", encoding="utf-8") as file:
        file.write(page(result))


if __name__ == "__main__":
    main()
