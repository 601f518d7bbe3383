#include "sim/diagnostics/debug_lines.hpp"

#include <dlfcn.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <unordered_map>

namespace tessera {

namespace {

/// The children of a DIE, one by one.
template <class Each>
void each_child(Dwarf_Die* parent, Each&& each) {
  Dwarf_Die child;
  for (int left = dwarf_child(parent, &child); left == 0; left = dwarf_siblingof(&child, &child))
    each(child);
}

/// The code of one function; one that is split has several.
struct Code {
  Dwarf_Addr low = 0;
  Dwarf_Addr high = 0;
  Dwarf_Die function{};
};

/// Of a DIE's whole tree: member functions of a local class may be anywhere in it.
void find_code(Dwarf_Die* in, std::vector<Code>& to) {
  each_child(in, [&](Dwarf_Die& die) {
    if (dwarf_tag(&die) == DW_TAG_subprogram) {
      Code code{.function = die};
      Dwarf_Addr base = 0;
      ptrdiff_t at = 0;
      while ((at = dwarf_ranges(&die, at, &base, &code.low, &code.high)) > 0) to.push_back(code);
    }
    if (dwarf_haschildren(&die) == 1) find_code(&die, to);
  });
}

/// The code of a unit by address.
class Functions {
 public:
  explicit Functions(Dwarf_Die* unit) {
    find_code(unit, code_);
    std::sort(code_.begin(), code_.end(),
              [](const Code& a, const Code& b) { return a.low < b.low; });
  }

  /// The function that has the address, or null.
  Dwarf_Die* at(Dwarf_Addr address) {
    auto it = std::upper_bound(code_.begin(), code_.end(), address,
                               [](Dwarf_Addr a, const Code& code) { return a < code.low; });
    if (it == code_.begin() || address >= (--it)->high) return nullptr;
    return &it->function;
  }

 private:
  std::vector<Code> code_;
};

/// The calls that inlined the code at an address into `in`, inner first.
void add_inlining(Dwarf_Die* in, Dwarf_Addr address, Dwarf_Files* files,
                  std::vector<SourceLine>& to) {
  each_child(in, [&](Dwarf_Die& die) {
    const int tag = dwarf_tag(&die);
    const bool inlined = tag == DW_TAG_inlined_subroutine && dwarf_haspc(&die, address) == 1;
    if (inlined || tag == DW_TAG_lexical_block) add_inlining(&die, address, files, to);
    if (!inlined) return;
    Dwarf_Attribute attribute;
    Dwarf_Word file = 0;
    Dwarf_Word line = 0;
    dwarf_formudata(dwarf_attr(&die, DW_AT_call_file, &attribute), &file);
    dwarf_formudata(dwarf_attr(&die, DW_AT_call_line, &attribute), &line);
    const char* name = dwarf_filesrc(files, file, nullptr, nullptr);
    to.push_back({name == nullptr ? "" : name, static_cast<int>(line)});
  });
}

class DebugLines {
 public:
  std::vector<SourceLine> of(const void* pointer) {
    const auto address = reinterpret_cast<Dwarf_Addr>(pointer);
    Dwfl_Module* module = module_of(pointer);
    if (module == nullptr) return {};
    Dwarf_Addr bias = 0;
    Dwarf_Die* unit = dwfl_module_addrdie(module, address, &bias);
    Dwarf_Die* function = nullptr;
    if (unit != nullptr) {
      function = functions_of(unit).at(address - bias);
    } else {
      // clang writes no .debug_aranges.
      while (function == nullptr && (unit = dwfl_module_nextcu(module, unit, &bias)) != nullptr)
        function = functions_of(unit).at(address - bias);
    }
    if (unit == nullptr) return {};
    std::vector<SourceLine> lines;
    if (Dwarf_Line* own = dwarf_getsrc_die(unit, address - bias); own != nullptr) {
      int line = 0;
      dwarf_lineno(own, &line);
      const char* name = dwarf_linesrc(own, nullptr, nullptr);
      if (name != nullptr) lines.push_back({name, line});
    }
    Dwarf_Files* files = nullptr;
    if (function != nullptr && dwarf_getsrcfiles(unit, &files, nullptr) == 0)
      add_inlining(function, address - bias, files, lines);
    return lines;
  }

 private:
  struct End {
    void operator()(Dwfl* dwfl) const { dwfl_end(dwfl); }
  };

  Dwfl_Module* module_of(const void* pointer) {
    const auto address = reinterpret_cast<Dwarf_Addr>(pointer);
    if (dwfl_ == nullptr) return nullptr;
    Dwfl_Module* module = dwfl_addrmodule(dwfl_.get(), address);
    Dl_info library{};
    if (module != nullptr || dladdr(pointer, &library) == 0) return module;
    // The first time, and what has been loaded since.
    dwfl_report_begin_add(dwfl_.get());
    dwfl_linux_proc_report(dwfl_.get(), getpid());
    dwfl_report_end(dwfl_.get(), nullptr, nullptr);
    return dwfl_addrmodule(dwfl_.get(), address);
  }

  Functions& functions_of(Dwarf_Die* unit) {
    return functions_.try_emplace(unit->addr, unit).first->second;
  }

  Dwfl_Callbacks callbacks_{.find_elf = dwfl_linux_proc_find_elf,
                            .find_debuginfo = dwfl_standard_find_debuginfo,
                            .section_address = nullptr,
                            .debuginfo_path = nullptr};
  std::unique_ptr<Dwfl, End> dwfl_{dwfl_begin(&callbacks_)};
  std::unordered_map<const void*, Functions> functions_;
};

}  // namespace

std::vector<SourceLine> source_lines(const void* address) {
  static thread_local DebugLines lines;
  return lines.of(address);
}

}  // namespace tessera
