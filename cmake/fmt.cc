// The compiled part of fmt, once for all: sources include <fmt/format.h> and see declarations there. As a header-only
// library fmt would add 2.5 s and 100 kB to each object that formats a line, and its shared library must not come along
// into other people's processes.
//
// Without locales: those of the C++ library, linked statically, would be made before main in each process.
#define FMT_STATIC_THOUSANDS_SEPARATOR ','
#include <fmt/format-inl.h>

// What <fmt/format.h> declares as `extern template`.
FMT_BEGIN_NAMESPACE
namespace detail {
template dragonbox::decimal_fp<float> dragonbox::to_decimal(float) noexcept;
template dragonbox::decimal_fp<double> dragonbox::to_decimal(double) noexcept;
template thousands_sep_result<char> thousands_sep_impl(locale_ref);
template char decimal_point_impl(locale_ref);
template void buffer<char>::append(const char*, const char*);
template void vformat_to(buffer<char>&, string_view, decltype(format_args()), locale_ref);
}  // namespace detail
FMT_END_NAMESPACE
