// The compiled part of fmt, once for all: sources include <fmt/format.h> and see declarations there. As a header-only
// library fmt would add 2.5 s and 100 kB to each object that formats a line, and its shared library must not come along
// into other people's processes.
//
// Without locales: those of the C++ library, linked statically, would be made before main in each process.
#define FMT_HEADER_ONLY 1
#define FMT_STATIC_THOUSANDS_SEPARATOR ','
#include <fmt/format.h>

// Functions in a header are compiled where they are used.
namespace {
[[gnu::used]] std::string (*const vformat)(fmt::string_view, fmt::format_args) = &fmt::vformat;
[[gnu::used]] constexpr auto* kThousandsSeparator = &fmt::detail::thousands_sep_impl<char>;
[[gnu::used]] constexpr auto* kDecimalPoint = &fmt::detail::decimal_point_impl<char>;
#if FMT_VERSION >= 100000
#if FMT_VERSION >= 110000
using Specs = fmt::format_specs;
#else
using Specs = fmt::format_specs<>;
#endif
using WriteLocalized = bool (*)(fmt::appender, fmt::loc_value, const Specs&, fmt::detail::locale_ref);
[[gnu::used]] constexpr WriteLocalized kWriteLocalized = &fmt::detail::write_loc;
#endif
}  // namespace
