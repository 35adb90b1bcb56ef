// Pages of torch's debug server (torch.distributed.debug: /fr_trace_json, /fr_trace_nccl_json), saved to a file: the
// dumps of all ranks in one page.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ncclwatch::analyzer::import {

// By its first bytes.
bool LooksLikePage(std::string_view bytes);

struct DumpInPage {
  int rank = -1;
  std::string text;  // JSON; or what the server says instead of it
};
std::vector<DumpInPage> DumpsInPage(std::string_view page);

}  // namespace ncclwatch::analyzer::import
