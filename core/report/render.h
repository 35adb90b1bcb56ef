// A diagnosis as text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/model/finding.h"

namespace ncclwatch::diagnosis {

// ncclwatch.diagnosis/1, indented, ends with a newline.
enum class Checked { kLeftOut, kShown };
std::string ToJson(const Diagnosis& diagnosis, Checked checked = Checked::kLeftOut);
std::string ToJsonLine(const Finding& finding);  // as in its `findings`, in one line without its end
// What a terminal puts around headings and the certainty in them; "" for text without colours.
struct Palette {
  std::string heading, certain, likely, suspected, plain;
};
// For a person. Prose keeps within `columns`; a table of calls may be wider.
constexpr std::size_t kColumns = 100;
std::string ToText(const Diagnosis& diagnosis, std::size_t columns = kColumns, const Palette& palette = {});
// One paragraph, broken at spaces: `first` before the first line, as many blanks before the others.
std::string Wrapped(std::string_view first, const std::string& text, std::size_t columns = kColumns);

}  // namespace ncclwatch::diagnosis
