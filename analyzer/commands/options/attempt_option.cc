#include "analyzer/commands/options/attempt_option.h"

namespace ncclwatch::analyzer {

void DeclareAttempt(Options* options, AttemptChoice* choice) {
  options
      ->add_option("--attempt", choice->number,
                   choice->prefer == Prefer::kLiving
                       ? "an attempt of a restarted job (default: the running one, else the last that failed)"
                       : "an attempt of a restarted job (default: the last that failed, else the last)")
      ->type_name("N");
}

}  // namespace ncclwatch::analyzer
