"""As much of JSON Schema as ours uses."""

from typing import Any

KINDS: dict[str, type | tuple[type, ...]] = {
    "string": str, "boolean": bool, "integer": int, "number": (int, float), "null": type(None), "object": dict,
    "array": list,
}  # fmt: skip


def problems(value: Any, schema: dict[str, Any], root: dict[str, Any], where: str = "") -> list[str]:
    """Where a document departs from a schema."""
    if "$ref" in schema:
        return problems(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, where)
    if "anyOf" in schema:
        tried = [problems(value, option, root, where) for option in schema["anyOf"]]
        return [] if [] in tried else min(tried, key=len)
    allowed = schema.get("type", list(KINDS))
    allowed = allowed if isinstance(allowed, list) else [allowed]
    fits = any(isinstance(value, KINDS[kind]) and (kind == "boolean") == isinstance(value, bool) for kind in allowed)
    if not fits:
        return [f"{where} is {value!r}, not {' or '.join(allowed)}"]
    found: list[str] = []
    if isinstance(value, dict):
        known, others = schema.get("properties", {}), schema.get("additionalProperties", {})
        found += [f"{where} lacks {name}" for name in schema.get("required", []) if name not in value]
        for name, item in value.items():
            if name in known or others is not False:
                found += problems(item, known.get(name, others), root, f"{where}.{name}")
            else:
                found.append(f"{where} has an unknown {name}")
    if isinstance(value, list):
        first = schema.get("prefixItems", [])
        for number, item in enumerate(value):
            wanted = first[number] if number < len(first) else schema.get("items", {})
            found += problems(item, wanted, root, f"{where}[{number}]")
    return found
