"""Figures of bench_peers.py: answers compared, samples summed up, Markdown printed."""

import json
import statistics
from typing import Any

TOLERANCE = 1e-3
TITLES = {"python": "Python package", "onnx": "ONNX Runtime", "ours": "laya-cli"}


class Disagreement(Exception):
    """The peers do not compute the same thing, so their times cannot be compared."""


def numbers(answer: dict[str, Any]) -> dict[str, float]:
    """The public numbers of an answer that are probabilities, a score by its share of the scale."""
    values = dict(answer.get("probabilities", {}))
    if "noul" in answer:
        values["noul"] = answer["noul"]
    if "score" in answer:
        values["score"] = answer["score"] / max(1, len(answer["legend"]) - 1)
    values["act"] = answer["action"]["act_probability"]
    return values


def compare(where: str, reference: dict[str, Any], other: dict[str, Any]) -> float:
    """The largest difference of any probability; raises Disagreement when it is too large or tokens differ."""
    for name, result in (("the reference", reference), ("a peer", other)):
        if "answers" not in result:
            raise Disagreement(f"{where}: {name} answered {json.dumps(result)[:200]}")
    if reference["usage"]["input_tokens"] != other["usage"]["input_tokens"]:
        raise Disagreement(
            f"{where}: {other['usage']['input_tokens']} tokens instead of {reference['usage']['input_tokens']}"
        )
    worst = 0.0
    for question, answer in reference["answers"].items():
        theirs, mine = numbers(answer), numbers(other["answers"][question])
        if theirs.keys() != mine.keys():
            raise Disagreement(f"{where}.{question}: {sorted(mine)} instead of {sorted(theirs)}")
        for key, value in theirs.items():
            gap = abs(value - mine[key])
            if not gap <= TOLERANCE + 1e-9:
                raise Disagreement(f"{where}.{question}.{key}: {mine[key]} instead of {value}")
            worst = max(worst, gap)
    return worst


def spread(values: list[float]) -> dict[str, float]:
    """Median, least and greatest."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def summary(samples: dict[str, list[float]]) -> dict[str, Any]:
    """Medians in ms by peer, and how many times slower than ours each was, paired by round."""
    ours = samples.get("ours", [])
    return {
        "median_ms": {peer: statistics.median(values) * 1e3 for peer, values in samples.items() if values},
        "best_ms": {peer: min(values) * 1e3 for peer, values in samples.items() if values},
        "ratio": {
            peer: spread([theirs / mine for theirs, mine in zip(values, ours, strict=True)])
            for peer, values in samples.items()
            if peer != "ours" and values and ours
        },
    }


def ms(value: float | None) -> str:
    """Milliseconds for a table."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def times(ratio: dict[str, float] | None, n_rounds: int) -> str:
    """A ratio with its spread."""
    if ratio is None:
        return "-"
    text = f"{ratio['median']:.2f}×"
    return text if n_rounds < 2 else f"{text} ({ratio['min']:.2f}-{ratio['max']:.2f})"


def table(rows: list[list[str]]) -> str:
    """A Markdown table; the first row is its head."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def peers_table(model: dict[str, Any]) -> str:
    """Times and ratios of a checkpoint."""
    peers = [peer for peer in TITLES if any(peer in case["median_ms"] for case in model["cases"])]
    others = [peer for peer in peers if peer != "ours"]
    head = ["questions × tokens", "tokens read", *(f"{TITLES[peer]}, ms" for peer in peers)]
    rows = [[*head, *(f"against {TITLES[peer]}" for peer in others), "rounds"]]
    for case in model["cases"]:
        row = [case["name"].replace("x", " × "), str(round(case["tokens_read"]))]
        row += [ms(case["median_ms"].get(peer)) for peer in peers]
        row += [times(case["ratio"].get(peer), case["rounds"]) for peer in others]
        rows.append([*row, str(case["rounds"])])
    return table(rows)


def tool_table(model: dict[str, Any]) -> str:
    """Loading, one-shot use, memory and the stream."""
    rows = [["laya-cli", "figure"]]
    shot = model.get("one_shot")
    if shot:
        medians = {name: value * 1e3 for name, value in shot["median_s"].items()}
        rows.append(["load, warm cache", f"{medians['load']:.0f} ms"])
        over = f"{shot['over_load_and_pass_s'] * 1e3:+.0f} ms over load + pass"
        rows.append([f"one-shot, {shot['case'].replace('x', ' × ')} tokens", f"{medians['one_shot']:.0f} ms ({over})"])
    for name, entry in model.get("memory", {}).items():
        steps = [(step, value) for step, value in entry.items() if isinstance(value, dict)]
        text = ", ".join(f"{step}: {value['rss']:.0f}" for step, value in steps)
        peak = steps[-1][1]["peak"]
        rows.append([f"resident, {name}, MiB", f"{text}; peak {peak:.0f} (+{peak - steps[0][1]['rss']:.0f})"])
    for name, loaded in model.get("peer_load", {}).items():
        rows.append(
            [f"{TITLES[name]}: start, resident", f"{loaded['seconds']:.2f} s, {loaded['memory']['rss']:.0f} MiB"]
        )
    lines = model.get("stream")
    if lines:
        rate = lines["items_a_second"]
        text = f"{rate['packed']:.1f} a second, {rate['sequential']:.1f} one by one"
        rows.append(
            [
                f"JSONL, {lines['items']} items of {lines['tokens_an_item']:.0f} tokens",
                f"{text}: {lines['ratio']:.2f}× ({min(lines['ratios']):.2f}-{max(lines['ratios']):.2f})",
            ]
        )
    return table(rows) if len(rows) > 1 else ""


def untrusted(record: dict[str, Any]) -> list[str]:
    """Why the figures should not be published."""
    reasons = []
    for model in record["models"]:
        for case in model["cases"]:
            if case["foreign_cores"] > 0.05:
                reasons.append(
                    f"{model['name']} {case['name']}: other processes kept {case['foreign_cores']:.2f} cores busy"
                )
            if case["rounds"] < 3:
                reasons.append(f"{model['name']} {case['name']}: only {case['rounds']} of at least 3 rounds")
        for name, cores in model["idle_cores"].items():
            if cores > 0.05:
                reasons.append(f"{model['name']}: {TITLES[name]} keeps {cores:.2f} cores busy between requests")
    return reasons


def markdown(record: dict[str, Any]) -> str:
    """The report."""
    versions = record["versions"]
    names = ("laya", "torch", "onnxruntime")
    listed = "".join(f", {name} {versions[name]}" for name in names if name in versions)
    parts = [f"{record['cpu']}, {record['threads']} threads; {record['laya_cli']} with F16 weights{listed}; float32."]
    for model in record["models"]:
        parts.append(f"### {model['name']}\n\n{peers_table(model)}")
        if model["skipped"]:
            parts.append("Not measured for lack of time: " + ", ".join(model["skipped"]) + ".")
        tool = tool_table(model)
        if tool:
            parts.append(tool)
        if len(model["peer_load"]) > 1:
            parts.append(f"Largest difference of a probability between peers: {model['largest_difference']:.1e}.")
    reasons = untrusted(record)
    if reasons:
        parts.append("**Not to be trusted:**\n\n" + "\n".join(f"- {reason}" for reason in reasons))
    return "\n\n".join(parts) + "\n"
