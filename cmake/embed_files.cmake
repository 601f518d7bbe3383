# Writes OUT, a .cpp that holds every file in DIR: FUNCTION of NAMESPACE gives them as TYPE, by name (less ".json"), as HEADER
# declares. Run with cmake -P.
file(GLOB files ${DIR}/*)
list(SORT files)
set(text "#include \"${HEADER}\"\nnamespace ${NAMESPACE} {\n")
string(APPEND text "std::span<const ${TYPE}> ${FUNCTION}() {\n  static constexpr ${TYPE} kAll[] = {\n")
foreach(file ${files})
  get_filename_component(name ${file} NAME)
  string(REGEX REPLACE "\\.json$" "" name ${name})
  file(READ ${file} content)
  string(APPEND text "{\"${name}\", R\"embedded(${content})embedded\"},\n")
endforeach()
string(APPEND text "  };\n  return kAll;\n}\n}\n")
file(WRITE ${OUT} "${text}")
