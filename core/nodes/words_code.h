// What a process said of its own end, on its way to the hub. Pure; nothing here trusts a byte.
#pragma once

#include "core/nodes/bytes.h"
#include "core/reader/image.h"

namespace ncclwatch::nodes {

void WriteLastWords(const reader::LastWords& words, Writer* to);
reader::LastWords ReadLastWords(Reader* from);

void WriteWords(const reader::Words& words, Writer* to);
reader::Words ReadWords(Reader* from);

}  // namespace ncclwatch::nodes
