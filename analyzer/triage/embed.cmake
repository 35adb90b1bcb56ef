# cmake -DFROM=rules.toml -DTO=own_rules.cc -P embed.cmake: the rules as a source.
file(READ ${FROM} text)
# Raw strings have a limit of 64 KiB in some compilers: one for each 8,000 letters, which the compiler joins.
string(LENGTH "${text}" length)
set(parts "")
set(at 0)
while(at LESS length)
  string(SUBSTRING "${text}" ${at} 8000 part)
  string(APPEND parts "R\"rules(${part})rules\"\n")
  math(EXPR at "${at} + 8000")
endwhile()
file(WRITE ${TO} "// Made from rules.toml.
#include \"analyzer/triage/matcher.h\"

namespace ncclwatch::analyzer {
std::string_view OwnRules() {
  return
${parts};
}
}  // namespace ncclwatch::analyzer
")
