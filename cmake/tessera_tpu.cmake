# The TPU build of kernels: libtessera_mosaic_<NAME>.so, a body compiled to be written down as a module, which
# `build --target tpu` of a program loads if it lies beside it. tessera's own build and a user's (`tessera new`) share this.

set(tessera_tpu_templates ${CMAKE_CURRENT_LIST_DIR})
if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/../cli/traced_kernel.cpp.in)
  set(tessera_tpu_templates ${CMAKE_CURRENT_LIST_DIR}/../cli)
endif()

# FOLDER/NAME.cpp and NAME_library.cpp, of struct MatmulRelu if the name is matmul_relu. TYPES: its element types.
function(tessera_traced_sources NAME HEADER namespace folder)
  string(REGEX MATCHALL "[a-z0-9]+" words ${NAME})
  set(STRUCT ${namespace})
  foreach(word ${words})
    string(SUBSTRING ${word} 0 1 first)
    string(SUBSTRING ${word} 1 -1 rest)
    string(TOUPPER ${first} first)
    string(APPEND STRUCT ${first}${rest})
  endforeach()
  configure_file(${tessera_tpu_templates}/traced_kernel.cpp.in ${folder}/${NAME}.cpp @ONLY)
  configure_file(${tessera_tpu_templates}/traced_library.cpp.in ${folder}/${NAME}_library.cpp @ONLY)
endfunction()

# Of the kernel of a program of its name, in HEADER. The program has what the library needs of tessera.
function(tessera_tpu_module program header)
  set(TYPES "float, bf16")
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/traced)
  tessera_traced_sources(${program} ${CMAKE_CURRENT_SOURCE_DIR}/${header} "" ${folder})
  add_library(tessera_mosaic_${program} MODULE ${folder}/${program}.cpp ${folder}/${program}_library.cpp)
  target_link_libraries(tessera_mosaic_${program} PRIVATE tessera::mosaic)
  set_target_properties(tessera_mosaic_${program} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  set(parts tessera::memory_model tessera::sim tessera::reference tessera::golden tessera::predict tessera::report tessera::cli)
  list(JOIN parts "," whole)
  set_target_properties(${program} PROPERTIES ENABLE_EXPORTS ON LINK_LIBRARY_OVERRIDE "WHOLE_ARCHIVE,${whole}")
endfunction()
