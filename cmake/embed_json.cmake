# Writes OUT, a .cpp that holds every JSON file in DIR: FUNCTION of NAMESPACE gives them as TYPE, by name, as HEADER
# declares. Run with cmake -P.
file(GLOB files ${DIR}/*.json)
list(SORT files)
set(text "#include \"${HEADER}\"\nnamespace ${NAMESPACE} {\n")
string(APPEND text "std::span<const ${TYPE}> ${FUNCTION}() {\n  static constexpr ${TYPE} kAll[] = {\n")
foreach(file ${files})
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} json)
  string(APPEND text "{\"${name}\", R\"json(${json})json\"},\n")
endforeach()
string(APPEND text "  };\n  return kAll;\n}\n}\n")
file(WRITE ${OUT} "${text}")
