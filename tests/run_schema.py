"""docs/run.schema.json, and what of a report is not as it says."""
import json
import pathlib

SCHEMA = json.loads((pathlib.Path(__file__).resolve().parents[1] / "docs/run.schema.json").read_text())


def complaints(value, schema=SCHEMA, at="run"):
    """What of `value` is not as `schema` has it; a property that it does not name is a complaint too."""
    if "anyOf" in schema:
        found = [complaints(value, each, at) for each in schema["anyOf"]]
        return [] if [] in found else min(found, key=len)
    if "const" in schema or "enum" in schema:
        return [] if value in schema.get("enum", [schema.get("const")]) else [f"{at} is {value!r}"]
    types = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float), "null": type(None)}
    wanted = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not any(isinstance(value, types[t]) and (t == "boolean" or not isinstance(value, bool)) for t in wanted):
        return [f"{at} is a {type(value).__name__}"]
    found = []
    if isinstance(value, list):
        for i, item in enumerate(value):
            found += complaints(item, schema["items"], f"{at}[{i}]")
    elif isinstance(value, dict):
        known = schema.get("properties", {})
        found += [f"{at}.{name} is missing" for name in schema.get("required", []) if name not in value]
        for name, item in value.items():
            if name in known:
                found += complaints(item, known[name], f"{at}.{name}")
            elif "additionalProperties" in schema:
                found += complaints(item, schema["additionalProperties"], f"{at}.{name}")
            elif known:
                found.append(f"{at}.{name} is not in the schema")
    return found
