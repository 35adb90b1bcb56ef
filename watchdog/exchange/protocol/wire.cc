#include "watchdog/exchange/protocol/wire.h"

#include <algorithm>
#include <tuple>

#include "watchdog/exchange/protocol/bytes.h"

namespace ncclwatch::exchange {
namespace {

void Put(Writer* writer, const Endpoint& endpoint) {
  writer->PutRaw({reinterpret_cast<const char*>(endpoint.address.data()), endpoint.address.size()});
  writer->Put(endpoint.port);
}

Endpoint GetEndpoint(Reader* reader) {
  Endpoint endpoint;
  const std::string_view address = reader->GetRaw(endpoint.address.size());
  std::copy(address.begin(), address.end(), endpoint.address.begin());
  endpoint.port = reader->Get<std::uint16_t>();
  return endpoint;
}

std::string Name(Reader* reader) { return std::string(reader->GetText(kMaxName)); }

// What a clock can say. Differences of two such numbers do not overflow.
bool IsTime(std::int64_t ns) { return ns > -(std::int64_t{1} << 61) && ns < std::int64_t{1} << 61; }

// A node without a name cannot be told from the others.
template <typename T>
std::optional<T> Checked(const Reader& reader, T value) {
  if (!reader.Done() || value.node.empty() || value.term > kMostTerm) return std::nullopt;
  return value;
}

}  // namespace

bool Claim::Beats(const Claim& other) const {
  if (members != other.members) return members > other.members;
  if (term != other.term) return term > other.term;
  return node < other.node;
}

std::string Join::Encode() const {
  std::string out;
  Writer writer(&out);
  writer.Put(std::uint8_t{hub}).Put(incarnation).Put(term).Put(members).Put(port).PutText(node).PutText(host);
  writer.Put(search);
  return out;
}

std::optional<Join> Join::Decode(std::string_view payload) {
  Reader reader(payload);
  Join join;
  join.hub = reader.Get<std::uint8_t>() != 0;
  join.incarnation = reader.Get<std::uint64_t>();
  join.term = reader.Get<std::uint64_t>();
  join.members = reader.Get<std::uint32_t>();
  join.port = reader.Get<std::uint16_t>();
  join.node = Name(&reader);
  join.host = Name(&reader);
  join.search = reader.Get<std::uint32_t>();
  return Checked(reader, std::move(join));
}

std::string Welcome::Encode() const {
  std::string out;
  Writer writer(&out);
  writer.Put(incarnation).Put(term).Put(order).Put(ping_ms).Put(port).PutText(node).PutText(host);
  return out;
}

std::optional<Welcome> Welcome::Decode(std::string_view payload) {
  Reader reader(payload);
  Welcome welcome;
  welcome.incarnation = reader.Get<std::uint64_t>();
  welcome.term = reader.Get<std::uint64_t>();
  welcome.order = reader.Get<std::uint32_t>();
  welcome.ping_ms = reader.Get<std::uint32_t>();
  welcome.port = reader.Get<std::uint16_t>();
  welcome.node = Name(&reader);
  welcome.host = Name(&reader);
  return Checked(reader, std::move(welcome));
}

std::string Redirect::Encode() const {
  std::string out;
  Writer writer(&out);
  writer.Put(term).Put(std::uint8_t{hub.has_value()});
  Put(&writer, hub.value_or(Endpoint()));
  writer.PutText(node);
  return out;
}

std::optional<Redirect> Redirect::Decode(std::string_view payload) {
  Reader reader(payload);
  Redirect elsewhere;
  elsewhere.term = reader.Get<std::uint64_t>();
  const bool known = reader.Get<std::uint8_t>() != 0;
  const Endpoint hub = GetEndpoint(&reader);
  if (known && hub.port != 0) elsewhere.hub = hub;
  elsewhere.node = Name(&reader);
  if (!reader.Done() || elsewhere.term > kMostTerm) return std::nullopt;
  return elsewhere;
}

std::string SuccessionList::Encode() const {
  std::string out;
  Writer writer(&out);
  writer.Put(term).Put(ping_ms).Put(static_cast<std::uint8_t>(std::min(successors.size(), kMost)));
  for (std::size_t i = 0; i < std::min(successors.size(), kMost); ++i) {
    writer.Put(successors[i].order);
    Put(&writer, successors[i].at);
    writer.PutText(successors[i].node).PutText(successors[i].host);
  }
  return out;
}

std::optional<SuccessionList> SuccessionList::Decode(std::string_view payload) {
  Reader reader(payload);
  SuccessionList list;
  list.term = reader.Get<std::uint64_t>();
  list.ping_ms = reader.Get<std::uint32_t>();
  const std::size_t count = reader.Get<std::uint8_t>();
  if (count > kMost || list.term > kMostTerm) return std::nullopt;
  for (std::size_t i = 0; i < count; ++i) {
    Successor successor;
    successor.order = reader.Get<std::uint32_t>();
    successor.at = GetEndpoint(&reader);
    successor.node = Name(&reader);
    successor.host = Name(&reader);
    if (!reader.ok() || successor.node.empty() || successor.at.port == 0) return std::nullopt;
    list.successors.push_back(std::move(successor));
  }
  if (!reader.Done()) return std::nullopt;
  return list;
}

std::string Ping::Encode() const {
  std::string out;
  Writer(&out).Put(sent_ns).Put(offset_ns).Put(error_ns);
  return out;
}

std::optional<Ping> Ping::Decode(std::string_view payload) {
  Reader reader(payload);
  Ping ping;
  ping.sent_ns = reader.Get<std::int64_t>();
  ping.offset_ns = reader.Get<std::int64_t>();
  ping.error_ns = reader.Get<std::int64_t>();
  if (!reader.Done() || !IsTime(ping.sent_ns) || !IsTime(ping.offset_ns) || !IsTime(ping.error_ns)) return std::nullopt;
  return ping;
}

std::string Pong::Encode() const {
  std::string out;
  Writer(&out).Put(sent_ns).Put(came_ns).Put(left_ns);
  return out;
}

std::optional<Pong> Pong::Decode(std::string_view payload) {
  Reader reader(payload);
  Pong pong;
  pong.sent_ns = reader.Get<std::int64_t>();
  pong.came_ns = reader.Get<std::int64_t>();
  pong.left_ns = reader.Get<std::int64_t>();
  if (!reader.Done() || !IsTime(pong.sent_ns) || !IsTime(pong.came_ns) || !IsTime(pong.left_ns)) return std::nullopt;
  return pong;
}

std::string Envelope::Encode() const {
  std::string out;
  Writer(&out).Put(static_cast<std::uint16_t>(type)).Put(term).PutText(other);
  return out;
}

std::optional<Envelope> Envelope::Decode(std::string_view payload, std::string_view* body) {
  Reader reader(payload);
  Envelope envelope;
  envelope.type = static_cast<Type>(reader.Get<std::uint16_t>());
  envelope.term = reader.Get<std::uint64_t>();
  envelope.other = Name(&reader);
  *body = reader.rest();
  if (!reader.ok() || static_cast<std::uint16_t>(envelope.type) < kFirstOfLeaders || body->size() > kMaxBody)
    return std::nullopt;
  return envelope;
}

}  // namespace ncclwatch::exchange
