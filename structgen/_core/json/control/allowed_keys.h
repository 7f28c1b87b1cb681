// Which keys may come next in an object with branches.
//
// Testing each key on its own takes as many queries as there are keys, each as long as the formula of the frame:
// quadratic time for `oneOf` of many branches. But an object that satisfies the frame mostly still does so with one
// more key: only groups that name the key, or that fail because it is left out, are concerned. So keys are tested on
// objects that were found already. For the others, each way to satisfy the frame without a violated group is a simple
// frame, which shows its keys at once. Only the keys that are left after that are tested one by one.
#pragma once

#include "json/control/object_frames.h"

namespace structgen {

AllowedKeys find_allowed_keys(SchemaTables &tables, JsonOracle &oracle, ObjectFrames &frames, ObjectControl *frame,
                              const ObjectView &view);

}  // namespace structgen
