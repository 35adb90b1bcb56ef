// What the terminal can do, and text made for it.
#pragma once

#include <string>

#include "core/model/finding.h"

namespace ncclwatch::analyzer {

// True if the descriptor is a terminal and neither NO_COLOR nor TERM=dumb forbids colour.
bool MayColour(int descriptor);
int Width(int descriptor);  // columns; 100 where it is not a terminal

enum class Colour { kNone, kRed, kYellow, kGreen, kBold, kDim };

// The diagnosis as it is printed on the descriptor: as wide as its terminal, at most 100 columns; headings in bold, and
// how certain they are in red, yellow or dim.
std::string DiagnosisFor(int descriptor, const diagnosis::Diagnosis& diagnosis);

}  // namespace ncclwatch::analyzer
