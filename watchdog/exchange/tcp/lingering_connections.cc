#include "watchdog/exchange/tcp/lingering_connections.h"

#include <algorithm>
#include <utility>

#include "watchdog/exchange/protocol/exchange.h"
#include "watchdog/exchange/protocol/wire.h"

namespace ncclwatch::exchange {
namespace {

constexpr std::int64_t kStay_ns = 15'000'000'000;  // longer than the longest patience
constexpr std::size_t kMost = 256;                 // descriptors; the oldest have had the most time

}  // namespace

LingeringConnections::~LingeringConnections() {
  while (!all_.empty()) Close(all_.size() - 1);
}

void LingeringConnections::Close(std::size_t index) {
  std::unique_ptr<Connection> connection = std::move(all_[index].connection);
  all_.erase(all_.begin() + static_cast<std::ptrdiff_t>(index));
  connection->Close();
  loop_->DeferDelete(std::move(connection));
}

void LingeringConnections::Take(std::unique_ptr<Connection> connection) {
  if (all_.size() >= kMost) Close(0);
  connection->SetOwner(this);
  connection->Send(static_cast<std::uint16_t>(Kind::kLeave), kWasSilent);
  all_.push_back({std::move(connection), Now() + kStay_ns});
}

void LingeringConnections::Tick(std::int64_t now_ns) {
  while (!all_.empty() && now_ns >= all_.front().until_ns) Close(0);
}

void LingeringConnections::OnEnd(Connection* connection, const std::string&) {
  const auto found =
      std::find_if(all_.begin(), all_.end(), [&](const One& one) { return one.connection.get() == connection; });
  if (found != all_.end()) Close(static_cast<std::size_t>(found - all_.begin()));
}

}  // namespace ncclwatch::exchange
