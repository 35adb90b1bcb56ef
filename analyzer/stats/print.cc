#include "analyzer/stats/print.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "analyzer/console/table.h"
#include "analyzer/console/units.h"
#include "core/model/text.h"
#include "core/text/printable.h"
#include "ncclwatch/functions/bandwidth.h"
#include "ncclwatch/functions/types.h"

namespace ncclwatch::analyzer {
namespace {

using Json = nlohmann::ordered_json;

double Micro(std::int64_t ns) { return static_cast<double>(ns) / 1000; }

// Of NCCL's calls, which return before they are done, their kernels tell.
std::optional<double> TimeOfOne(const StatsKey& key, const StatsSum& sum) {
  const auto mean = [](std::int64_t total, std::uint64_t count) -> std::optional<double> {
    if (count == 0) return std::nullopt;
    return static_cast<double>(total) / static_cast<double>(count);
  };
  return functions::IsMpi(key.function) ? mean(sum.under_way_ns, sum.durations.count())
                                        : mean(sum.transfer_ns, sum.transfers);
}

std::optional<functions::Bandwidth> BandwidthIn(const Tally& tally, const StatsKey& key, const StatsSum& sum) {
  const std::optional<double> time_ns = TimeOfOne(key, sum);
  if (!time_ns) return std::nullopt;
  const auto on = tally.communicators().find(key.communicator);
  const std::uint32_t ranks = on == tally.communicators().end() ? 0 : on->second.size;
  return functions::BandwidthOf(functions::PatternOf(key.function), key.bytes, ranks, *time_ns);
}

// The durations that are shown.
const Durations& DurationsOf(const StatsSum& sum) { return sum.kernels.count() > 0 ? sum.kernels : sum.durations; }

// "RING SIMPLE 8", as far as all kernels are alike.
std::string WayOf(const StatsSum& sum) {
  if (!sum.way) return "";
  const std::string_view algorithm = format::Name(sum.way->algorithm), protocol = format::Name(sum.way->protocol);
  std::string text(algorithm.empty() ? "-" : algorithm);
  text += protocol.empty() ? " -" : fmt::format(" {}", protocol);
  if (sum.way->channels > 0) text += fmt::format(" {}", sum.way->channels);
  return text;
}

std::int64_t TotalOf(const Tally& tally) {
  std::int64_t total = 0;
  for (const auto& [key, sum] : tally.sums()) total += sum->TotalNs();
  return total;
}

double ShareOf(std::int64_t part, std::int64_t total) {
  return total == 0 ? 0 : static_cast<double>(part) / static_cast<double>(total);
}

diagnosis::CommunicatorNames NamesOf(const Tally& tally) {
  diagnosis::CommunicatorNames names;
  for (const auto& [id, one] : tally.communicators()) names.Add(id, one.label);
  return names;
}

std::string TypeOf(std::uint8_t dtype) {
  return dtype == format::kNoType ? "" : std::string(functions::DatatypeName(dtype));
}

Json WordOrNull(std::string_view word) { return word.empty() ? Json(nullptr) : Json(word); }

// As in a line of `trace --json`, with the text of the site.
Json SiteJson(const Tally::Site& site) {
  const bool known = site.source && !site.source->file.empty();
  return {{"text", Printable(site.text)},
          {"file", known ? Json(Printable(site.source->file)) : Json(nullptr)},
          {"line", known && site.source->line > 0 ? Json(site.source->line) : Json(nullptr)},
          {"function", known ? WordOrNull(Printable(site.source->function)) : Json(nullptr)}};
}

std::string RowTable(const Tally& tally, StatsBy by, std::size_t most) {
  Table table({{"SITE"},
               {"OP"},
               {"COMM"},
               {"DTYPE"},
               {"SIZE", true},
               {"RANK", true},
               {"CALLS", true},
               {"TIME", true},
               {"SHARE", true},
               {"UNDER WAY", true},
               {"P50", true},
               {"P99", true},
               {"MAX", true},
               {"WAIT", true},
               {"ALGBW", true},
               {"BUSBW", true},
               {"KERNEL"},
               {"PAYLOAD"}});
  const auto rows = tally.sums();
  const std::int64_t total = TotalOf(tally);
  const diagnosis::CommunicatorNames names = NamesOf(tally);
  const auto time = [](std::int64_t ns) { return DurationText(absl::Nanoseconds(ns)); };
  for (std::size_t i = 0; i < rows.size() && (most == 0 || i < most); ++i) {
    const auto& [key, sum] = rows[i];
    const auto bandwidth = BandwidthIn(tally, key, *sum);
    table.Add(
        {by.site ? Printable(tally.sites()[key.site].text) : "",
         by.op ? std::string(functions::OpName(key.function)) : "",
         key.communicator == 0 ? "" : Printable(names.Short(key.communicator)), TypeOf(key.dtype),
         by.size ? BytesText(key.bytes) : "", by.rank ? fmt::format("{}", key.rank) : "", fmt::format("{}", sum->calls),
         time(sum->TotalNs()), fmt::format("{:.1f} %", 100 * ShareOf(sum->TotalNs(), total)), time(sum->under_way_ns),
         time(DurationsOf(*sum).Quantile(0.5)), time(DurationsOf(*sum).Quantile(0.99)), time(DurationsOf(*sum).most()),
         time(sum->wait_ns), bandwidth ? fmt::format("{:.3g} GB/s", bandwidth->algbw_GBps) : "",
         bandwidth ? fmt::format("{:.3g} GB/s", bandwidth->busbw_GBps) : "", WayOf(*sum),
         Printable(sum->payload.value_or(""))});
  }
  std::string text = table.Text();
  if (most != 0 && rows.size() > most) text += fmt::format("... and {} more (--top 0 shows all)\n", rows.size() - most);
  return text;
}

std::string RankTable(const Tally& tally) {
  Table table({{"RANK", true},
               {"CALLS", true},
               {"BYTES", true},
               {"TIME", true},
               {"WAITED", true},
               {"AWAITED", true},
               {"LOST", true}});
  const auto time = [](std::int64_t ns) { return DurationText(absl::Nanoseconds(ns)); };
  for (const auto& [rank, sum] : tally.ranks())
    table.Add({fmt::format("{}", rank), fmt::format("{}", sum.calls), BytesText(sum.bytes), time(sum.total_ns),
               time(sum.wait_ns), time(sum.awaited_ns), sum.lost == 0 ? "" : fmt::format("{}", sum.lost)});
  return table.Text();
}

}  // namespace

Json StatsJson(const Tally& tally, StatsBy by) {
  Json lost = Json::object(), rows = Json::array(), ranks = Json::array();
  const std::int64_t total = TotalOf(tally);
  for (const auto& [key, sum] : tally.sums()) {
    const auto bandwidth = BandwidthIn(tally, key, *sum);
    Json row = {
        {"op", by.op ? Json(functions::OpName(key.function)) : Json(nullptr)},
        {"communicator", key.communicator ? Json(diagnosis::Hex16(key.communicator)) : Json(nullptr)},
        {"label", key.communicator ? Json(Printable(tally.communicators().at(key.communicator).label)) : Json(nullptr)},
        {"dtype", key.dtype == format::kNoType ? Json(nullptr) : Json(TypeOf(key.dtype))},
        {"bytes", by.size ? Json(key.bytes) : Json(nullptr)},
        {"calls", sum->calls},
        {"total_us", Micro(sum->TotalNs())},
        {"under_way_us", Micro(sum->under_way_ns)},
        {"p50_us", Micro(DurationsOf(*sum).Quantile(0.5))},
        {"p99_us", Micro(DurationsOf(*sum).Quantile(0.99))},
        {"max_us", Micro(DurationsOf(*sum).most())},
        {"wait_us", Micro(sum->wait_ns)},
        {"share", ShareOf(sum->TotalNs(), total)},
        {"algbw_GBps", bandwidth ? Json(bandwidth->algbw_GBps) : Json(nullptr)},
        {"busbw_GBps", bandwidth ? Json(bandwidth->busbw_GBps) : Json(nullptr)},
        {"source", sum->kernels.count() > 0 ? "kernel" : "host"},
        {"timed", sum->kernels.count() > 0 ? sum->kernels.count() : sum->durations.count()},
        {"algorithm", WordOrNull(sum->way ? format::Name(sum->way->algorithm) : "")},
        {"protocol", WordOrNull(sum->way ? format::Name(sum->way->protocol) : "")},
        {"payload", WordOrNull(Printable(sum->payload.value_or("")))},
        {"channels", sum->way && sum->way->channels > 0 ? Json(sum->way->channels) : Json(nullptr)},
    };
    if (by.rank) row["rank"] = key.rank;
    if (by.site) row["site"] = SiteJson(tally.sites()[key.site]);
    rows.push_back(std::move(row));
  }
  for (const auto& [rank, sum] : tally.ranks()) {
    lost[std::to_string(rank)] = sum.lost;
    ranks.push_back({{"rank", rank},
                     {"calls", sum.calls},
                     {"bytes", sum.bytes},
                     {"total_us", Micro(sum.total_ns)},
                     {"wait_us", Micro(sum.wait_ns)},
                     {"awaited_us", Micro(sum.awaited_ns)}});
  }
  return {{"schema", "ncclwatch.stats/1"}, {"calls", tally.calls()}, {"lost", lost}, {"rows", rows}, {"ranks", ranks}};
}

std::string StatsText(const Tally& tally, StatsBy by, std::size_t most) {
  return RowTable(tally, by, most) + "\n" + RankTable(tally);
}

}  // namespace ncclwatch::analyzer
