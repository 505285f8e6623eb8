"""Print what the official SDK's descriptors say, as JSON: messages, enums, operations.

It never shares a process with a2a.py: both are called a2a.
"""

import json

from a2a.types import a2a_pb2
from google.api import annotations_pb2, field_behavior_pb2
from google.protobuf.descriptor import FieldDescriptor

SCALARS = {
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_INT32: "int32",
}


def kind(field):
    if field.message_type:
        return field.message_type.name
    return field.enum_type.name if field.enum_type else SCALARS[field.type]


def describe(field):
    """Give the field as a2a.Field has it."""
    mapped = bool(field.message_type and field.message_type.GetOptions().map_entry)
    group = field.containing_oneof
    synthetic = bool(group and len(group.fields) == 1 and group.name == "_" + field.name)
    behavior = field.GetOptions().Extensions[field_behavior_pb2.field_behavior]
    return {
        "number": field.number,
        "name": field.json_name,
        "kind": kind(field.message_type.fields_by_name["value"]) if mapped else kind(field),
        "required": field_behavior_pb2.REQUIRED in list(behavior),
        "presence": synthetic,
        "repeated": field.is_repeated and not mapped,
        "mapped": mapped,
        "oneof": bool(group) and not synthetic,
    }


def messages():
    for message in a2a_pb2.DESCRIPTOR.message_types_by_name.values():
        yield message.name, [describe(field) for field in message.fields]


def operations():
    service = a2a_pb2.DESCRIPTOR.services_by_name["A2AService"]
    for method in service.methods:
        rule = method.GetOptions().Extensions[annotations_pb2.http]
        verb = rule.WhichOneof("pattern")
        yield (
            method.name,
            {
                "request": method.input_type.name,
                "response": method.output_type.name,
                "streams": method.server_streaming,
                "verb": verb.upper(),
                "path": getattr(rule, verb),
            },
        )


enums = {
    enum.name: [value.name for value in enum.values]
    for enum in a2a_pb2.DESCRIPTOR.enum_types_by_name.values()
}
print(json.dumps({"messages": dict(messages()), "enums": enums, "operations": dict(operations())}))
