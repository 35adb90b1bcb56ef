// What the terminal can do, and text made for it.
#pragma once

#include <string>
#include <string_view>

namespace ncclwatch::analyzer {

// True if the descriptor is a terminal and neither NO_COLOR nor TERM=dumb forbids colour.
bool MayColour(int descriptor);
int Width(int descriptor);  // columns; 100 where it is not a terminal

enum class Colour { kNone, kRed, kYellow, kGreen, kBold, kDim };
std::string Coloured(std::string_view text, Colour colour, bool allowed);

// Headings of a diagnosis in bold, kinds in red where `allowed`; otherwise the text unchanged.
std::string ColourDiagnosis(const std::string& text, bool allowed);

}  // namespace ncclwatch::analyzer
