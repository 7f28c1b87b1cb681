// How values start: the types that an obligation leaves, the languages of scalars, and the control of containers.
#pragma once

#include <deque>
#include <memory>

#include "json/oracle/oracle.h"

namespace structgen {

class ValueControls {
 public:
  ValueControls(SchemaTables &tables, JsonOracle &oracle) : tables_(tables), oracle_(oracle) {}

  ValueControl *control(ObligationId obligation);
  // The control of values that satisfy a requirement.
  ValueControl *control_of(Formula requirement) { return control(tables_.obligations.require(requirement)); }
  ObjectControl *open_object(ValueControl *value);
  ArrayControl *open_array(ValueControl *value);

 private:
  std::unique_ptr<ValueControl> make_control(ObligationId obligation);
  // The obligation over the keyword groups of one type.
  ObligationId expand(ObligationId obligation, Type type);

  SchemaTables &tables_;
  JsonOracle &oracle_;
  std::deque<std::unique_ptr<ValueControl>> controls_;  // by obligation
};

}  // namespace structgen
