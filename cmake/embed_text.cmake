# cmake -DFROM=rules.toml -DTO=own_rules.cc -DHEADER=... -DFUNCTION=OwnRules -P embed_text.cmake: a text as a source.
file(READ ${FROM} text)
# Raw strings have a limit of 64 KiB in some compilers: one for each 8,000 letters, which the compiler joins.
string(LENGTH "${text}" length)
set(parts "")
set(at 0)
while(at LESS length)
  string(SUBSTRING "${text}" ${at} 8000 part)
  string(APPEND parts "R\"text(${part})text\"\n")
  math(EXPR at "${at} + 8000")
endwhile()
file(WRITE ${TO} "// Made from ${FROM}.
#include \"${HEADER}\"

namespace ncclwatch::analyzer {
std::string_view ${FUNCTION}() {
  return
${parts};
}
}  // namespace ncclwatch::analyzer
")
