#include "analyzer/trace/sites.h"

#include "core/model/text.h"

namespace ncclwatch::analyzer {

const Site* Sites::Of(const MergedCall& merged) {
  const std::uint64_t address = merged.call.site;
  if (address == 0) return nullptr;
  const auto [found, made] = known_.try_emplace({merged.number, address});
  if (!made) return &found->second;
  Site& site = found->second;
  site.text = reader::SiteText(merged.piece, address);
  site.source = lines_.PlaceOf(merged.piece, address);
  site.line = site.source && !site.source->file.empty() ? diagnosis::LineText(*site.source) : site.text;
  return &site;
}

void Sites::FillIn(const MergedCall& merged, Row* row) {
  const Site* const site = Of(merged);
  if (!site) return;
  row->site_text = site->text;
  row->source = site->source;
}

}  // namespace ncclwatch::analyzer
