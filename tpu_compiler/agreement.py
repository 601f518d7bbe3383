"""How well tessera's own rules agree with the TPU's compiler: reads what `tessera check --json` wrote, prints Markdown.

    tessera check FOLDER --json checked.json
    python tpu_compiler/agreement.py "drawn, seed 1=checked.json" "corpus=corpus.json"

A pair is a module and a device. Agreed are pairs that both accept or both refuse; the rest is listed by what the one
that refuses says, with numbers left out.
"""
import collections
import json
import re
import sys

ORDER = ["tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-v7x"]


def kind_of(text):
    """A sentence without what differs from module to module."""
    text = re.sub(r"'[^']*'|\"[^\"]*\"|%\S+", "_", text)
    text = re.sub(r"vector<[^>]*>|memref<[^>]*>", "_", text)
    return re.sub(r"\d[\d.,x]*", "N", text)[:110]


def rows_of(path):
    with open(path, encoding="utf-8") as file:
        checked = json.load(file)
    for module in checked["modules"]:
        for row in module["devices"]:
            yield checked["compiler"], module["module"].rsplit("/", 1)[-1], row


def main():
    tables, kinds, versions = [], collections.defaultdict(list), set()
    for argument in sys.argv[1:]:
        title, path = argument.split("=", 1)
        count = collections.defaultdict(collections.Counter)
        for version, module, row in rows_of(path):
            versions.add(version)
            own, theirs = row["tessera"]["refused"], row["compiler"]["verdict"]
            if theirs == "unknown":
                count[row["device"]]["unknown"] += 1
                continue
            theirs = theirs == "refused"
            count[row["device"]][own, theirs] += 1
            if own != theirs:
                says = row["tessera"]["message"] if own else row["compiler"]["sentence"]
                kinds[title, "tessera alone refuses" if own else "the compiler alone refuses", kind_of(says)].append(
                    (module, row["device"]))
        tables.append((title, count))
    print("Asked: " + "; ".join(sorted(versions)) + ".\n")
    print("| modules | device | both accept | both refuse | tessera alone refuses | the compiler alone refuses | agreed |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for title, count in tables:
        everything = collections.Counter()
        for device in [d for d in ORDER if d in count] + ["all"]:
            c = everything if device == "all" else count[device]
            if device != "all":
                everything.update(c)
            known = sum(n for key, n in c.items() if key != "unknown")
            agreed = c[False, False] + c[True, True]
            print(f"| {title} | {device} | {c[False, False]} | {c[True, True]} | {c[True, False]} | {c[False, True]} | "
                  f"{agreed} of {known}, {100 * agreed / max(1, known):.1f} % |")
    print("\n| modules | who | what is said | pairs | devices | for example |")
    print("|---|---|---|---:|---|---|")
    for (title, who, kind), pairs in sorted(kinds.items(), key=lambda item: (item[0][0], -len(item[1]))):
        devices = sorted({device.removeprefix("tpu-") for _, device in pairs})
        print(f"| {title} | {who} | {kind} | {len(pairs)} | {', '.join(devices)} | {pairs[0][0]} |")


if __name__ == "__main__":
    main()
