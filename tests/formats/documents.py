"""JSON documents against the tables of docs/json.md, in both directions."""

import re


def leaves(value, path=""):
    """(path, value) of everything that is neither an object nor a list; empty ones and nulls too."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for inner in value:
            yield from leaves(inner, path + "[]")
    else:
        yield path, value


def fits(value, kind):
    if value is None:
        return kind.endswith("?")
    kinds = {"text": str, "integer": int, "number": (int, float), "bool": bool}
    wanted = kinds[kind.rstrip("?")]
    return isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool))


def as_pattern(key):
    return re.compile(re.escape(key).replace(r"\*", r"[^.\[\]]+") + "$")


def disagreements(document, documented):
    """What a document has and its description has not, or the other way round. `documented`: (key, type) pairs."""
    known = [(key, as_pattern(key), kind) for key, kind in documented]
    seen, empty = set(), []
    for path, value in leaves(document):
        matches = [(key, kind) for key, pattern, kind in known if pattern.match(path)]
        if not matches:
            inside = [key for key, _ in documented if key.startswith((path + ".", path + "["))]
            if value in (None, [], {}) and inside:
                empty.append(path)
            else:
                yield f"{path} is not documented"
            continue
        [(key, kind)] = matches
        seen.add(key)
        if not fits(value, kind):
            yield f"{path} is {value!r}, documented as {kind}"
    for key, _ in documented:
        if key not in seen and not any(re.match(as_pattern(key[: len(path)]), path) and
                                       key[len(path):len(path) + 1] in (".", "[") for path in empty):
            yield f"{key} is documented and not there"
