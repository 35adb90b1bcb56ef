// libncclwatch-arrow.so: hands the columns that `ncclwatch trace --arrow` prints (analyzer/trace/columns.h) to any
// consumer of the Arrow C data interface (https://arrow.apache.org/docs/format/CDataInterface.html). In C and not in
// Python: consumers release arrays at any time, also while an exception is on its way, when no Python code may run.
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

// As the specification declares them.
struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;
  void (*release)(struct ArrowSchema*);
  void* private_data;
};
struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;
  void (*release)(struct ArrowArray*);
  void* private_data;
};
struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream*, struct ArrowSchema*);
  int (*get_next)(struct ArrowArrayStream*, struct ArrowArray*);
  const char* (*get_last_error)(struct ArrowArrayStream*);
  void (*release)(struct ArrowArrayStream*);
  void* private_data;
};

enum { kNullable = 2, kAlignment = 64, kMostBuffers = 3 };

struct Column {
  char name[64], format[16];
  int64_t rows, nulls;
  int buffers;
  size_t offset[kMostBuffers], bytes[kMostBuffers];
  struct Column* items;  // of a list, else null
};

// What all schemas, arrays and streams of one answer share.
struct Shared {
  atomic_long users;
  int64_t rows;
  int columns;
  struct Column* column;
  char* body;  // aligned
};

static struct Shared* Use(struct Shared* shared) {
  atomic_fetch_add(&shared->users, 1);
  return shared;
}

static void LetGo(struct Shared* shared) {
  if (atomic_fetch_sub(&shared->users, 1) != 1) return;
  for (int i = 0; shared->column && i < shared->columns; ++i) free(shared->column[i].items);
  free(shared->column);
  free(shared->body);
  free(shared);
}

static void ReleaseSchema(struct ArrowSchema* schema) {
  for (int64_t i = 0; i < schema->n_children; ++i) {
    if (schema->children[i]->release) schema->children[i]->release(schema->children[i]);
    free(schema->children[i]);
  }
  free(schema->children);
  LetGo(schema->private_data);
  schema->release = NULL;
}

static void ReleaseArray(struct ArrowArray* array) {
  for (int64_t i = 0; i < array->n_children; ++i) {
    if (array->children[i]->release) array->children[i]->release(array->children[i]);
    free(array->children[i]);
  }
  free(array->children);
  free(array->buffers);
  LetGo(array->private_data);
  array->release = NULL;
}

static void* Zeroed(size_t count, size_t bytes) {
  void* memory = calloc(count ? count : 1, bytes);
  if (!memory) abort();  // as Python does without memory
  return memory;
}

static struct ArrowSchema* SchemaOf(struct Shared* shared, const struct Column* column) {
  struct ArrowSchema* schema = Zeroed(1, sizeof *schema);
  *schema = (struct ArrowSchema){.format = column->format,
                                 .name = column->name,
                                 .flags = kNullable,
                                 .n_children = column->items ? 1 : 0,
                                 .release = ReleaseSchema,
                                 .private_data = Use(shared)};
  if (!column->items) return schema;
  schema->children = Zeroed(1, sizeof *schema->children);
  schema->children[0] = SchemaOf(shared, column->items);
  return schema;
}

static void FillSchema(struct Shared* shared, struct ArrowSchema* out) {
  *out = (struct ArrowSchema){
      .format = "+s", .name = "", .n_children = shared->columns, .release = ReleaseSchema, .private_data = Use(shared)};
  out->children = Zeroed((size_t)shared->columns, sizeof *out->children);
  for (int i = 0; i < shared->columns; ++i) out->children[i] = SchemaOf(shared, &shared->column[i]);
}

static struct ArrowArray* ArrayOf(struct Shared* shared, const struct Column* column) {
  struct ArrowArray* array = Zeroed(1, sizeof *array);
  *array = (struct ArrowArray){.length = column->rows,
                               .null_count = column->nulls,
                               .n_buffers = column->buffers,
                               .n_children = column->items ? 1 : 0,
                               .release = ReleaseArray,
                               .private_data = Use(shared)};
  array->buffers = Zeroed(kMostBuffers, sizeof *array->buffers);
  for (int b = 0; b < column->buffers; ++b)
    if (b > 0 || column->bytes[b] > 0) array->buffers[b] = shared->body + column->offset[b];
  if (!column->items) return array;
  array->children = Zeroed(1, sizeof *array->children);
  array->children[0] = ArrayOf(shared, column->items);
  return array;
}

static void FillArray(struct Shared* shared, struct ArrowArray* out) {
  *out = (struct ArrowArray){.length = shared->rows,
                             .n_buffers = 1,
                             .n_children = shared->columns,
                             .release = ReleaseArray,
                             .private_data = Use(shared)};
  out->buffers = Zeroed(1, sizeof *out->buffers);
  out->children = Zeroed((size_t)shared->columns, sizeof *out->children);
  for (int i = 0; i < shared->columns; ++i) out->children[i] = ArrayOf(shared, &shared->column[i]);
}

// ---- the stream: one array ---------------------------------------------------------------------------------------

struct Stream {
  struct Shared* shared;
  int given;
};

static int GetSchema(struct ArrowArrayStream* stream, struct ArrowSchema* out) {
  FillSchema(((struct Stream*)stream->private_data)->shared, out);
  return 0;
}

static int GetNext(struct ArrowArrayStream* stream, struct ArrowArray* out) {
  struct Stream* own = stream->private_data;
  memset(out, 0, sizeof *out);  // the end
  if (!own->given) FillArray(own->shared, out);
  own->given = 1;
  return 0;
}

static const char* GetLastError(struct ArrowArrayStream* stream) {
  (void)stream;
  return NULL;
}

static void ReleaseStream(struct ArrowArrayStream* stream) {
  struct Stream* own = stream->private_data;
  LetGo(own->shared);
  free(own);
  stream->release = NULL;
}

// ---- for the Python package, by ctypes ---------------------------------------------------------------------------

static int InBody(const struct Column* column, size_t bytes) {
  for (int b = 0; b < kMostBuffers; ++b)
    if (column->offset[b] > bytes || column->bytes[b] > bytes - column->offset[b]) return 0;
  return 1;
}

// The line at *line, which is moved on, and the next one for the items of a list; `bytes`: of the body.
static int ReadColumn(const char** line, const char* end, size_t bytes, struct Column* column) {
  if (!*line || *line >= end ||
      sscanf(*line + 1, "%63s %15s %" SCNd64 " %" SCNd64 " %d %zu %zu %zu %zu %zu %zu", column->name, column->format,
             &column->rows, &column->nulls, &column->buffers, &column->offset[0], &column->bytes[0], &column->offset[1],
             &column->bytes[1], &column->offset[2], &column->bytes[2]) != 11 ||
      column->buffers < 1 || column->buffers > kMostBuffers || !InBody(column, bytes))
    return 0;
  *line = strchr(*line + 1, '\n');
  if (strcmp(column->format, "+L") != 0) return 1;
  column->items = Zeroed(1, sizeof *column->items);
  return ReadColumn(line, end, bytes, column->items);
}

// Takes a copy of `data`, zero-terminated. Null and errno: it is not what the command prints.
EXPORT struct Shared* ncclwatch_columns(const char* data, size_t bytes) {
  struct Shared* shared = Zeroed(1, sizeof *shared);
  atomic_init(&shared->users, 1);
  const char* end = strstr(data, "\n\n");
  const char* line = strchr(data, '\n');
  if (!end || sscanf(data, "%" SCNd64 " %d", &shared->rows, &shared->columns) != 2 || shared->columns < 0 ||
      shared->columns > 4096 || shared->rows < 0)
    goto damaged;
  const size_t head = ((size_t)(end + 2 - data) + kAlignment - 1) / kAlignment * kAlignment;
  if (head > bytes) goto damaged;
  shared->column = Zeroed((size_t)shared->columns, sizeof *shared->column);
  for (int i = 0; i < shared->columns; ++i)
    if (!ReadColumn(&line, end, bytes - head, &shared->column[i]) || shared->column[i].rows != shared->rows)
      goto damaged;
  if (posix_memalign((void**)&shared->body, kAlignment, bytes - head + kAlignment) != 0) abort();
  memcpy(shared->body, data + head, bytes - head);
  return shared;
damaged:
  LetGo(shared);
  errno = EINVAL;
  return NULL;
}

EXPORT void ncclwatch_columns_free(struct Shared* shared) { LetGo(shared); }
EXPORT int64_t ncclwatch_columns_rows(const struct Shared* shared) { return shared->rows; }

EXPORT const char* ncclwatch_columns_name(const struct Shared* shared, int number) {
  return number < shared->columns ? shared->column[number].name : NULL;
}

EXPORT struct ArrowSchema* ncclwatch_columns_schema(struct Shared* shared) {
  struct ArrowSchema* schema = Zeroed(1, sizeof *schema);
  FillSchema(shared, schema);
  return schema;
}

EXPORT struct ArrowArrayStream* ncclwatch_columns_stream(struct Shared* shared) {
  struct ArrowArrayStream* stream = Zeroed(1, sizeof *stream);
  struct Stream* own = Zeroed(1, sizeof *own);
  own->shared = Use(shared);
  *stream = (struct ArrowArrayStream){.get_schema = GetSchema,
                                      .get_next = GetNext,
                                      .get_last_error = GetLastError,
                                      .release = ReleaseStream,
                                      .private_data = own};
  return stream;
}

// Python's; the interpreter that loads this library has it.
extern void* PyCapsule_GetPointer(void* capsule, const char* name) __attribute__((weak));

EXPORT void ncclwatch_schema_capsule_end(void* capsule) {
  struct ArrowSchema* schema = PyCapsule_GetPointer(capsule, "arrow_schema");
  if (schema->release) schema->release(schema);  // nobody has taken it out
  free(schema);
}

EXPORT void ncclwatch_stream_capsule_end(void* capsule) {
  struct ArrowArrayStream* stream = PyCapsule_GetPointer(capsule, "arrow_array_stream");
  if (stream->release) stream->release(stream);
  free(stream);
}
