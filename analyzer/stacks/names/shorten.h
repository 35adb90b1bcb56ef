// C++ names as a person reads them in a stack.
#pragma once

#include <string>
#include <string_view>

namespace ncclwatch::stacks {

// Demangled and shortened; what is not mangled as it is.
std::string ReadableName(const std::string& symbol);

// Of a demangled name: without the parameters, the return type and what stands in long template arguments.
// "void ns::Loop<std::vector<int, std::allocator<int> > >::Run(int) const" -> "ns::Loop<...>::Run"
std::string Shortened(std::string_view demangled);

}  // namespace ncclwatch::stacks
