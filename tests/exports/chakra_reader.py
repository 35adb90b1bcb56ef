"""Chakra's execution traces: its messages, as far as export writes them, made from the numbers of their public schema."""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.unknown_fields import UnknownFieldSet

TYPES = {"uint64": 4, "int64": 3, "int32": 5, "bool": 8, "string": 9, "enum": 5}
SCHEMA = {
    "GlobalMetadata": [("version", 1, "string")],
    "AttributeProto": [("name", 1, "string"), ("int32_val", 7, "int32"), ("int64_val", 9, "int64"), ("bool_val", 27, "bool"),
                       ("string_val", 29, "string")],
    "Node": [("id", 1, "uint64"), ("name", 2, "string"), ("type", 3, "enum"), ("data_deps", 5, "uint64*"),
             ("start_time_micros", 6, "uint64"), ("duration_micros", 7, "uint64"), ("attr", 10, "AttributeProto*")],
}
COMPUTE, SEND, RECEIVE, COLLECTIVE = 4, 5, 6, 7


def messages():
    file = descriptor_pb2.FileDescriptorProto(name="chakra.proto", package="chakra", syntax="proto3")
    for name, fields in SCHEMA.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            label = 3 if kind.endswith("*") else 1
            kind = kind.rstrip("*")
            added = message.field.add(name=field, number=number, label=label, type=TYPES.get(kind, 11))
            if kind not in TYPES:
                added.type_name = ".chakra." + kind
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName("chakra." + name)) for name in SCHEMA}


def pieces(data):
    at = 0
    while at < len(data):
        length = shift = 0
        while True:
            byte = data[at]
            at += 1
            length |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                break
        assert at + length <= len(data), "cut short"
        yield data[at:at + length]
        at += length


def read(path):
    """The version, and nodes with their attributes as a dictionary in `attributes`."""
    kinds = messages()
    head, *rest = pieces(open(path, "rb").read())
    nodes = []
    for one in rest:
        node = kinds["Node"].FromString(one)
        for message in (node, *node.attr):
            assert not UnknownFieldSet(message), "a field that is not known"
        values = {}
        for attribute in node.attr:
            set_ = [value for field, value in attribute.ListFields() if field.name != "name"]
            values[attribute.name] = set_[0] if set_ else 0
        nodes.append((node, values))
    return kinds["GlobalMetadata"].FromString(head).version, nodes
