#include "core/rules/mpi/disagreement.h"

#include "core/model/text.h"

namespace ncclwatch::diagnosis {

using format::Argument;
using functions::Function;

namespace {

// Where the standard has no clear word, or no MPI looks at it.
bool IsFirm(Function function, Argument argument) {
  return argument != Argument::kRemainDims &&
         !(function == Function::MPI_Intercomm_create && argument == Argument::kTag) &&
         !(argument == Argument::kReorder && function != Function::MPI_Cart_create &&
           function != Function::MPI_Graph_create);
}

std::int64_t EnteredAt(const View& view, const Made& made) {
  return view.process(*made.member).At(made.call->entered_ns);
}

}  // namespace

std::map<Argument, Argued> ArgumentsOf(const reader::CallParts* parts) {
  std::map<Argument, Argued> arguments;
  if (parts == nullptr) return arguments;
  for (const format::Part& part : parts->sends) {
    Argued& argued = arguments[static_cast<Argument>(part.dtype)];
    argued.values.push_back(part.bytes);
    argued.whole = part.element == format::kWholeArray;
  }
  return arguments;
}

Values GroupOf(const reader::CallParts& parts) {
  Values ranks;
  for (const format::Part& part : parts.receives) ranks.push_back(part.what);
  return ranks;
}

std::string ListText(const Values& values) {
  constexpr std::size_t kEnough = 12;
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < std::min(kEnough, values.size()); ++i)
    texts.push_back(std::to_string(static_cast<std::int64_t>(values[i])));
  if (values.size() > kEnough) texts.emplace_back("...");
  return "(" + Join(texts, ", ") + ")";
}

std::string ArgumentText(Argument argument, const Argued& argued) {
  if (argued.whole) return "other values";
  if (format::IsArray(argument)) return ListText(argued.values);
  return argued.values.empty() ? "nothing" : std::to_string(static_cast<std::int64_t>(argued.values[0]));
}

void CompareArguments(const Made& usual, const Made& odd, Disagreement* found) {
  const std::map<Argument, Argued> given = ArgumentsOf(odd.parts), expected = ArgumentsOf(usual.parts);
  std::vector<std::string> texts;
  found->firm = false;
  for (const auto& [argument, argued] : given) {
    const auto other = expected.find(argument);
    if (argument == Argument::kLeaders || other == expected.end() || other->second == argued) continue;
    texts.push_back(std::string(format::Name(argument)) + " " + ArgumentText(argument, argued) + " instead of " +
                    ArgumentText(argument, other->second));
    found->firm = found->firm || IsFirm(odd.call->function, argument);
  }
  found->text = texts.empty() ? "other arguments" : Join(texts, ", ");
}

Disagreement Between(const View& view, const CommView& comm, std::vector<ArgumentGroup> parties) {
  Disagreement found;
  found.comm = &comm;
  found.parties = std::move(parties);
  std::vector<std::int64_t> began;
  for (const ArgumentGroup& party : found.parties) {
    std::int64_t first = INT64_MAX;
    for (const Made* made : party.made) first = std::min(first, EnteredAt(view, *made));
    began.push_back(first);
  }
  std::sort(began.begin(), began.end());
  found.began_ns = began[1];
  return found;
}

}  // namespace ncclwatch::diagnosis
