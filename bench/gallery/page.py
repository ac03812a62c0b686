"""docs/gallery.md from the reports of the gallery's programs (`pagewise report --json`)."""
import pathlib
import platform

# Objects shown of each program, and the least share of the swap events of one that is.
MOST, LEAST = 6, 0.01


def mib(bytes_):
    if bytes_ is None:
        return "?"
    size = bytes_ / (1 << 20)
    return f"{size:,.0f} MiB" if size >= 10 else f"{size:.1f} MiB"


def duration(ns):
    for unit, length in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= length:
            return f"{ns / length:.3g} {unit}"
    return f"{ns} ns"


def named(item):
    """As the report calls it; of a file its last part."""
    label = pathlib.PurePath(item["label"]).name if item["kind"] == "file" else item["label"]
    return f"`{label}`"


def events(item):
    return (item["swap_ins"] or 0) + (item["evictions"] or 0)


def shares(report):
    """Rows of the table of objects: most swap events first."""
    everything = sum(events(item) for item in report["objects"])
    if everything == 0:
        return []
    ordered = sorted(report["objects"], key=events, reverse=True)
    shown = [item for item in ordered[:MOST] if events(item) >= LEAST * everything]
    rows = []
    for item in shown:
        rows.append(f"| {named(item)} | {mib(item['bytes'])} | {events(item) / everything:.0%} | {duration(item['stall_ns'] or 0)} | {item['pattern'] or '–'} |")
    rest = ordered[len(shown):]
    if rest:
        share = sum(map(events, rest)) / everything
        rows.append(f"| {len(rest)} more | | {share:.0%} | {duration(sum(item['stall_ns'] or 0 for item in rest))} | |")
    return rows


def section(program, report):
    summary, need = report["summary"], report["memory_need"]
    lines = [
        f"## {program['name']}", "",
        f"For {program['spec']}: {program['what']}.", "",
        f"    {program['command']}", "",
        f"![Swap-ins and evictions of {program['name']}, by address and time](gallery/{program['name']}.webp)", "",
        f"{program['words']}", "",
        f"Limit {mib(summary['limit_bytes'])}; waited {duration(summary['stall_ns'])} of {duration(summary['wall_ns'])} in "
        f"{summary['swap_ins']:,} swap-ins, {summary['evictions']:,} evictions; "
        + (f"needs {mib(need['limit_bytes'])} to avoid 99 % of it." if need["limit_bytes"] else "what it needs cannot be told."), "",
        "| object | size | swap events | stall | pattern |", "|---|--:|--:|--:|---|", *shares(report), "",
    ]
    return lines


def peak(report):
    """Of the run without a limit, which the limit of 60 % was taken from."""
    limit = report["summary"]["limit_bytes"]
    return mib(limit / 0.6 if limit else None)


def render(programs, reports):
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    lines = [
        "# Gallery", "",
        "Eight programs under memory pressure: free stand-ins for those of SPEC CPU2006 in Fig. 3.2 and Table 3.1 of the swpTracer thesis,",
        "each recorded once at 60 % of its peak memory. `make gallery` records them again and writes this page.", "",
        f"Linux {platform.release().split('-')[0]}, {cpu}, swap on zram. A dot of a picture is a page that came back from swap (orange) or left",
        "memory (blue), each object in a band of its own ([how to read it](report.md#what-it-shows)). *Swap events* are swap-ins and evictions. One\nrecording each, on a machine shared with other work: times are longer than they need be.", "",
        "| program | for | peak | in the thesis | limit | swap events | most of the stall |", "|---|---|--:|--:|--:|--:|---|",
    ]
    for program in programs:
        report = reports[program["name"]]
        summary = report["summary"]
        worst = max(report["objects"], key=lambda item: item["stall_ns"] or 0)
        share = (worst["stall_ns"] or 0) / summary["stall_ns"] if summary["stall_ns"] else 0
        lines.append(f"| [{program['name']}](#{program['name']}) | {program['spec']} | {peak(report)} | {program['thesis_mib']:,} MiB | {mib(summary['limit_bytes'])} "
                     f"| {summary['swap_ins'] + summary['evictions']:,} | {named(worst)}, {share:.0%} |")
    lines.append("")
    for program in programs:
        lines += section(program, reports[program["name"]])
    return "\n".join(lines).rstrip() + "\n"
