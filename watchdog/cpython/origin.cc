#include "watchdog/cpython/origin.h"

#include <string>

namespace ncclwatch::cpython {
namespace {

// ".../lib/python3.11/", also lib64 and the archive python311.zip of an embedded interpreter.
bool IsInStandardLibrary(std::string_view file) {
  for (const std::string_view folder : {"/lib/python3", "/lib64/python3"}) {
    const std::size_t at = file.find(folder);
    if (at == std::string_view::npos) continue;
    const std::string_view rest = file.substr(at + folder.size());
    const std::size_t digits = rest.find_first_not_of(".0123456789t");
    if (digits != std::string_view::npos && (rest[digits] == '/' || rest.substr(digits).starts_with("zip/")))
      return true;
  }
  return false;
}

}  // namespace

Origin OriginOf(std::string_view file) {
  for (const std::string_view folder : {"/site-packages/", "/dist-packages/", "/torchinductor_"})
    if (file.find(folder) != std::string_view::npos) return Origin::kPackage;
  // "__init__" is the interpreter's own code around the __init__ of a class.
  if (file == "__init__" || file.starts_with("<frozen ") || IsInStandardLibrary(file)) return Origin::kStandard;
  for (const std::string_view generated : {"<eval_with_key>", "<__array_function__", "<attrs generated",
                                           "<torch_package", "<decorator-gen", "<lambdifygenerated", "<makefun-gen"})
    if (file.starts_with(generated)) return Origin::kPackage;
  return Origin::kProgram;
}

bool IsBackend(std::string_view qualified_name, std::string_view caller) {
  if (caller.ends_with("/torch/distributed/distributed_c10d.py")) return true;
  if (!caller.empty() && caller.find("/torch/") == std::string_view::npos) return false;
  if (qualified_name.ends_with("Work.wait")) return true;
  std::string name;  // as in c10d's classes Backend and ProcessGroup
  for (const char letter : qualified_name.substr(qualified_name.rfind('.') + 1))
    if (letter != '_') name += letter;
  for (const std::string_view collective : {"allreduce", "broadcast", "allgather", "reducescatter", "reduce",
                                            "alltoall", "gather", "scatter", "send", "recv", "barrier"})
    if (name.starts_with(collective)) return true;
  return false;
}

}  // namespace ncclwatch::cpython
