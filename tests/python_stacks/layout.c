// Where CPython of one minor version keeps what is read of it, as that version's own headers say. layouts.py compiles
// this (it is never run, so any processor's compiler will do) and takes the numbers from the object file. Their order
// is that of the enum in watchdog/cpython/layout.h; layouts.py checks that both have the same names.
//
// From 3.13 on a process says its offsets itself, in _Py_DebugOffsets: there a number says where in that struct the
// offset is to be found.
#define Py_BUILD_CORE 1
#include <Python.h>
#include <frameobject.h>
#include <stddef.h>

#include "internal/pycore_interp.h"
#include "internal/pycore_runtime.h"
#if PY_VERSION_HEX >= 0x030b0000
#include "internal/pycore_frame.h"
#endif
#if PY_VERSION_HEX >= 0x030e0000
#include "internal/pycore_interpframe_structs.h"
#endif

#define NONE 0xffffffffu
#define RUNTIME(member) offsetof(struct pyruntimestate, member)
#define INTERPRETER(member) offsetof(struct _is, member)
#define THREAD(member) offsetof(struct _ts, member)
#define CODE(member) offsetof(PyCodeObject, member)
#define SAID(member) offsetof(_Py_DebugOffsets, member)

__attribute__((section("python.layout"), used)) const struct {
  char name[28];
  unsigned offset;
} layout[] = {
#if PY_VERSION_HEX >= 0x030d0000
    {"kInterpreters", SAID(runtime_state.interpreters_head)},
    {"kRuntimeGil", NONE},
    {"kInterpreterNext", SAID(interpreter_state.next)},
    {"kInterpreterId", SAID(interpreter_state.id)},
    {"kInterpreterThreads", SAID(interpreter_state.threads_head)},
    {"kInterpreterGil", SAID(interpreter_state.ceval_gil)},
    {"kInterpreterModules", SAID(interpreter_state.imports_modules)},
    {"kGil", SAID(interpreter_state.gil_runtime_state)},
    {"kGilHolder", SAID(interpreter_state.gil_runtime_state_holder)},
    {"kGilLocked", SAID(interpreter_state.gil_runtime_state_locked)},
    {"kGilEnabled", SAID(interpreter_state.gil_runtime_state_enabled)},
    {"kThreadNext", SAID(thread_state.next)},
    {"kThreadInterpreter", SAID(thread_state.interp)},
    {"kThreadFrame", SAID(thread_state.current_frame)},
    {"kCFrameFrame", NONE},
    {"kThreadId", SAID(thread_state.thread_id)},
    {"kThreadNativeId", SAID(thread_state.native_thread_id)},
    {"kFramePrevious", SAID(interpreter_frame.previous)},
    {"kFrameCode", SAID(interpreter_frame.executable)},
    {"kFrameInstruction", SAID(interpreter_frame.instr_ptr)},
    {"kFrameOwner", SAID(interpreter_frame.owner)},
    {"kFrameEntry", NONE},
#if PY_VERSION_HEX >= 0x030e0000
    {"kFrameCodeCopy", SAID(interpreter_frame.tlbc_index)},
#else
    {"kFrameCodeCopy", NONE},
#endif
    {"kFrameLocals", SAID(interpreter_frame.localsplus)},
    {"kCodeFile", SAID(code_object.filename)},
    {"kCodeName", SAID(code_object.name)},
    {"kCodeQualifiedName", SAID(code_object.qualname)},
    {"kCodeFirstLine", SAID(code_object.firstlineno)},
    {"kCodeLines", SAID(code_object.linetable)},
    {"kCodeInstructions", SAID(code_object.co_code_adaptive)},
#if PY_VERSION_HEX >= 0x030e0000
    {"kCodeCopies", SAID(code_object.co_tlbc)},
#else
    {"kCodeCopies", NONE},
#endif
    {"kCodeLocals", SAID(code_object.localsplusnames)},
    {"kObjectType", SAID(pyobject.ob_type)},
    {"kTypeName", SAID(type_object.tp_name)},
    {"kStrLength", SAID(unicode_object.length)},
    {"kStrState", SAID(unicode_object.state)},
    {"kStrAscii", SAID(unicode_object.asciiobject_size)},
    {"kBytesLength", SAID(bytes_object.ob_size)},
    {"kBytesData", SAID(bytes_object.ob_sval)},
    {"kTupleLength", SAID(tuple_object.ob_size)},
    {"kTupleItems", SAID(tuple_object.ob_item)},
    {"kIntSize", SAID(long_object.lv_tag)},
    {"kIntDigits", SAID(long_object.ob_digit)},
#else
    {"kInterpreters", RUNTIME(interpreters.head)},
#if PY_VERSION_HEX >= 0x030c0000
    {"kRuntimeGil", NONE},
#else
    {"kRuntimeGil", RUNTIME(ceval.gil)},
#endif
    {"kInterpreterNext", INTERPRETER(next)},
    {"kInterpreterId", INTERPRETER(id)},
#if PY_VERSION_HEX >= 0x030b0000
    {"kInterpreterThreads", INTERPRETER(threads.head)},
#else
    {"kInterpreterThreads", INTERPRETER(tstate_head)},
#endif
#if PY_VERSION_HEX >= 0x030c0000
    {"kInterpreterGil", INTERPRETER(ceval.gil)},
    {"kInterpreterModules", INTERPRETER(imports.modules)},
#else
    {"kInterpreterGil", NONE},
    {"kInterpreterModules", INTERPRETER(modules)},
#endif
    {"kGil", 0},
    {"kGilHolder", offsetof(struct _gil_runtime_state, last_holder)},
    {"kGilLocked", offsetof(struct _gil_runtime_state, locked)},
    {"kGilEnabled", NONE},
    {"kThreadNext", THREAD(next)},
    {"kThreadInterpreter", THREAD(interp)},
#if PY_VERSION_HEX >= 0x030b0000
    {"kThreadFrame", THREAD(cframe)},
    {"kCFrameFrame", offsetof(_PyCFrame, current_frame)},
    {"kThreadId", THREAD(thread_id)},
    {"kThreadNativeId", THREAD(native_thread_id)},
    {"kFramePrevious", offsetof(_PyInterpreterFrame, previous)},
    {"kFrameCode", offsetof(_PyInterpreterFrame, f_code)},
    {"kFrameInstruction", offsetof(_PyInterpreterFrame, prev_instr)},
#else
    {"kThreadFrame", THREAD(frame)},
    {"kCFrameFrame", NONE},
    {"kThreadId", THREAD(thread_id)},
    {"kThreadNativeId", NONE},
    {"kFramePrevious", offsetof(struct _frame, f_back)},
    {"kFrameCode", offsetof(struct _frame, f_code)},
    {"kFrameInstruction", offsetof(struct _frame, f_lasti)},
#endif
#if PY_VERSION_HEX >= 0x030c0000
    {"kFrameOwner", offsetof(_PyInterpreterFrame, owner)},
    {"kFrameEntry", NONE},
#elif PY_VERSION_HEX >= 0x030b0000
    {"kFrameOwner", NONE},
    {"kFrameEntry", offsetof(_PyInterpreterFrame, is_entry)},
#else
    {"kFrameOwner", NONE},
    {"kFrameEntry", NONE},
#endif
    {"kFrameCodeCopy", NONE},
#if PY_VERSION_HEX >= 0x030b0000
    {"kFrameLocals", offsetof(_PyInterpreterFrame, localsplus)},
#else
    {"kFrameLocals", offsetof(struct _frame, f_localsplus)},
#endif
    {"kCodeFile", CODE(co_filename)},
    {"kCodeName", CODE(co_name)},
#if PY_VERSION_HEX >= 0x030b0000
    {"kCodeQualifiedName", CODE(co_qualname)},
#else
    {"kCodeQualifiedName", NONE},
#endif
    {"kCodeFirstLine", CODE(co_firstlineno)},
#if PY_VERSION_HEX >= 0x030a0000
    {"kCodeLines", CODE(co_linetable)},
#else
    {"kCodeLines", CODE(co_lnotab)},
#endif
#if PY_VERSION_HEX >= 0x030b0000
    {"kCodeInstructions", CODE(co_code_adaptive)},
#else
    {"kCodeInstructions", NONE},
#endif
    {"kCodeCopies", NONE},
#if PY_VERSION_HEX >= 0x030b0000
    {"kCodeLocals", CODE(co_localsplusnames)},
#else
    {"kCodeLocals", CODE(co_varnames)},
#endif
    {"kObjectType", offsetof(PyObject, ob_type)},
    {"kTypeName", offsetof(PyTypeObject, tp_name)},
    {"kStrLength", offsetof(PyASCIIObject, length)},
    {"kStrState", offsetof(PyASCIIObject, state)},
    {"kStrAscii", sizeof(PyASCIIObject)},
    {"kBytesLength", offsetof(PyVarObject, ob_size)},
    {"kBytesData", offsetof(PyBytesObject, ob_sval)},
    {"kTupleLength", offsetof(PyVarObject, ob_size)},
    {"kTupleItems", offsetof(PyTupleObject, ob_item)},
#if PY_VERSION_HEX >= 0x030c0000
    {"kIntSize", offsetof(PyLongObject, long_value.lv_tag)},
    {"kIntDigits", offsetof(PyLongObject, long_value.ob_digit)},
#else
    {"kIntSize", offsetof(PyVarObject, ob_size)},
    {"kIntDigits", offsetof(struct _longobject, ob_digit)},
#endif
#endif
    // What the process never says.
    {"kStrWideAfterAscii", sizeof(PyCompactUnicodeObject) - sizeof(PyASCIIObject)},
    {"kObjectBytes", sizeof(PyObject)},
#if PY_VERSION_HEX >= 0x030b0000
    {"kFrameNamespace", offsetof(_PyInterpreterFrame, f_locals)},
#else
    {"kFrameNamespace", offsetof(struct _frame, f_locals)},
#endif
};

// The bits of a str's state are told by an object that has them set.
__attribute__((section("python.str_kind"), used)) const PyASCIIObject str_kind = {.state = {.kind = 7}};
__attribute__((section("python.str_compact"), used)) const PyASCIIObject str_compact = {.state = {.compact = 1}};
__attribute__((section("python.str_ascii"), used)) const PyASCIIObject str_ascii = {.state = {.ascii = 1}};
__attribute__((section("python.state_at"), used)) const unsigned state_at = offsetof(PyASCIIObject, state);
__attribute__((section("python.version"), used)) const unsigned version = PY_VERSION_HEX;

#if PY_VERSION_HEX >= 0x030c0000
// Frames of these owners have no code of the program.
_Static_assert(FRAME_OWNED_BY_FRAME_OBJECT == 2, "kFirstShimOwner");
#endif
#if PY_VERSION_HEX >= 0x030e0000
_Static_assert(FRAME_OWNED_BY_INTERPRETER == 3, "kFirstShimOwner");
#elif PY_VERSION_HEX >= 0x030c0000
_Static_assert(FRAME_OWNED_BY_CSTACK == 3, "kFirstShimOwner");
#endif
