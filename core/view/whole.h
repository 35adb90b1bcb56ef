// Of thousands of boxes the images are sifted (reader/sift.h). What most verdicts need is in them; where more is needed
// the ring is read after all.
#pragma once

#include <vector>

#include "core/view/view.h"

namespace ncclwatch::diagnosis {

// Files what was left out of the images of those whose calls part from others', or whose messages have no partner in
// what is there.
void PutBack(View* view);

// Members with calls. Neighbours overlap most, and those that have come equally far in the same way stand together.
std::vector<const Member*> InOrderOfProgress(const CommView& comm);

}  // namespace ncclwatch::diagnosis
