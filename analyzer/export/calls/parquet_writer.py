"""Writes Parquet for `ncclwatch export`, which runs it (-c) and hands it the columns on standard input:

    {"out": folder, "columns": [[name, type], ...]}\n
    {"node": ..., "hour": ..., "rows": ..., "bytes": ..., "columns": [{"new": [...], "nulls": ..., "sizes": [validity, values]}, ...]}\n
    the buffers, one behind another, each filled up to a multiple of 64 bytes
    ...

`new`: texts of the node's column that are called by number from then on. A column without sizes is null throughout. A name
like site.file is a field of the struct `site`, which is null where its last number is.
Says "ready" once pyarrow is there, and at the end the names of the files as JSON.
"""

import json
import os
import sys

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
except ImportError as error:
    print(error)
    sys.exit(0)

TEXT = pa.dictionary(pa.int32(), pa.string())
TYPES = {"micros": pa.timestamp("us", "UTC"), "int64": pa.int64(), "int32": pa.int32(), "double": pa.float64(),
         "bool": pa.bool_(), "text": TEXT, "texts": pa.list_(pa.string())}
DEPENDS_ON = {"kernel": "duration_s", "site": "offset"}  # the field without which there is no struct
MOST_OPEN = 200  # files
ALIGNED = 64


class Node:
    """The texts of one node's columns, and its file."""

    def __init__(self, columns):
        self.texts = [[] for _ in columns]
        self.arrays = [None for _ in columns]
        self.hour = self.writer = None
        self.files = 0

    def texts_of(self, number, new):
        if new or self.arrays[number] is None:
            self.texts[number] += new
            self.arrays[number] = pa.array(self.texts[number], pa.string())
        return self.arrays[number]


def column(form, rows, texts, nulls, validity, values):
    if form == "text":
        numbers = pa.Array.from_buffers(pa.int32(), rows, [validity, values], nulls)
        return pa.DictionaryArray.from_arrays(numbers, texts, safe=False)
    if form == "texts":
        numbers = pa.Array.from_buffers(pa.int32(), rows, [validity, values], nulls)
        lists = pa.array([[]] + [text.split(",") for text in texts.to_pylist()], TYPES[form])
        return lists.take(pc.fill_null(pc.add(numbers, 1), 0))
    if form == "bool":
        return pa.Array.from_buffers(pa.uint8(), rows, [validity, values], nulls).cast(pa.bool_())
    return pa.Array.from_buffers(TYPES[form], rows, [validity, values], nulls)


def none_of(form, rows):
    if form == "texts":
        return pa.array([[]], TYPES[form]).take(pa.nulls(rows, pa.int32()).fill_null(0))
    if form == "text":
        return pa.DictionaryArray.from_arrays(pa.nulls(rows, pa.int32()), pa.array([], pa.string()))
    return pa.nulls(rows, TYPES[form])


def batch_of(columns, head, node, body):
    rows, flat, at = head["rows"], [], 0

    def take(size):
        nonlocal at
        begin, at = at, at + -(-size // ALIGNED) * ALIGNED
        return pa.py_buffer(body[begin:begin + size]) if size else None

    for number, ((_, form), one) in enumerate(zip(columns, head["columns"])):
        texts = node.texts_of(number, one["new"])
        if "sizes" not in one:
            flat.append(none_of(form, rows))
            continue
        validity, values = map(take, one["sizes"])
        flat.append(column(form, rows, texts, one["nulls"], validity, values))
    names, arrays, structs = [], [], {}
    for (name, _), array in zip(columns, flat):
        outer, _, inner = name.partition(".")
        if outer not in names:
            names.append(outer)
            arrays.append(array)
        if inner:
            structs.setdefault(outer, {})[inner] = array
    for outer, fields in structs.items():
        missing = fields[DEPENDS_ON[outer]].is_null()
        arrays[names.index(outer)] = pa.StructArray.from_arrays(list(fields.values()), list(fields), mask=missing)
    return pa.table(arrays, names)


class Files:
    """OUT/node=NODE/hour=HOUR/part-N.parquet; each batch is a row group."""

    def __init__(self, out, columns):
        self.out, self.columns, self.names, self.open = out, columns, [], []
        self.texts = [name for name, form in columns if form in ("text", "texts")]
        # Times and numbers of calls grow slowly; of the others, few differ.
        self.steady = {name: "DELTA_BINARY_PACKED" for name, form in columns if form in ("micros", "int64")}

    def writer(self, node, name, hour, schema):
        if node.hour != hour or node.writer is None:
            self.close(node)
            folder = os.path.join(self.out, f"node={name}", f"hour={hour}")
            os.makedirs(folder, exist_ok=True)
            path = os.path.join(folder, f"part-{node.files}.parquet")
            node.files += 1
            node.hour = hour
            node.writer = pq.ParquetWriter(path, schema, compression="zstd", compression_level=1, use_dictionary=self.texts,
                                           column_encoding=self.steady, write_statistics=["time", "time_ns", "rank", "op"])
            self.names.append(path)
            self.open.append(node)
            if len(self.open) > MOST_OPEN:
                self.close(self.open[0])
        return node.writer

    def close(self, node):
        if node.writer is not None:
            node.writer.close()
            node.writer = None
            self.open.remove(node)

    def close_all(self):
        while self.open:
            self.close(self.open[0])


def main():
    print("ready", flush=True)
    source = sys.stdin.buffer
    head = json.loads(source.readline())
    columns, nodes = head["columns"], {}
    files = Files(head["out"], columns)

    memory = bytearray()  # of one batch after another: what is written of the last one has been encoded

    def read(size):
        nonlocal memory
        if len(memory) < size:
            memory = bytearray(size + size // 4)
        view, done = memoryview(memory)[:size], 0
        while done < size:
            count = source.readinto(view[done:])
            if not count:
                raise EOFError("the command has ended before its last batch")
            done += count
        return view

    for line in iter(source.readline, b""):
        head = json.loads(line)
        node = nodes.setdefault(head["node"], Node(columns))
        table = batch_of(columns, head, node, read(head["bytes"]))
        files.writer(node, head["node"], head["hour"], table.schema).write_table(table, row_group_size=head["rows"])
    files.close_all()
    print(json.dumps(files.names))


main()
