// The part of fmt that <fmt/core.h> leaves to its library. FMT_HEADER_ONLY makes it an inline function: it is emitted
// where its address is taken.
#include <fmt/format.h>

[[gnu::used]] static std::string (*const vformat_is_used)(fmt::string_view, fmt::format_args) = &fmt::vformat;
