# cmake --install: headers under include/tessera, libraries, the program, a package for find_package(tessera).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/tessera)
install(TARGETS tessera_flags tessera_memory_model tessera_sim tessera_reference tessera_kernels tessera_golden
  tessera_predict tessera_report tessera_tuning tessera_record tessera_cli tessera_mosaic
  EXPORT tesseraTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS tessera RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET tessera_cuda)
  install(FILES ${CMAKE_BINARY_DIR}/cuda/libtessera_cuda.so DESTINATION lib/tessera OPTIONAL)
endif()
if(TARGET tessera-import)
  install(TARGETS tessera-import RUNTIME DESTINATION bin OPTIONAL)
endif()
foreach(folder memory_model sim reference kernels golden predict report tuning record cuda mosaic cli)
  install(DIRECTORY ${folder}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tessera/${folder}
    FILES_MATCHING PATTERN "*.hpp" PATTERN "templates" EXCLUDE)
endforeach()
install(FILES ${CMAKE_BINARY_DIR}/generated/cli/interface.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tessera/cli)
install(FILES cuda/backend.cu cuda/c_api.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tessera/cuda)
install(FILES scripts/tessera_gdb.py golden/python/tessera_golden.py DESTINATION ${CMAKE_INSTALL_DATADIR}/tessera)
# What the program says of itself: completion for shells, the manual page.
set(said "completion bash" bash-completion/completions/tessera "completion zsh" zsh/site-functions/_tessera
  "completion fish" fish/vendor_completions.d/tessera.fish man man1/tessera.1)
while(said)
  list(POP_FRONT said words file)
  separate_arguments(words)
  set(folder ${CMAKE_INSTALL_DATADIR})
  if(words STREQUAL man)
    set(folder ${CMAKE_INSTALL_MANDIR})
  endif()
  get_filename_component(name ${file} NAME)
  get_filename_component(subfolder ${file} DIRECTORY)
  install(CODE "execute_process(COMMAND $<TARGET_FILE:tessera> ${words} OUTPUT_FILE ${CMAKE_BINARY_DIR}/generated/${name} COMMAND_ERROR_IS_FATAL ANY)" COMPONENT words)
  install(FILES ${CMAKE_BINARY_DIR}/generated/${name} DESTINATION ${folder}/${subfolder} COMPONENT words)
endwhile()
install(EXPORT tesseraTargets NAMESPACE tessera:: DESTINATION ${package})
set_target_properties(tessera_flags PROPERTIES EXPORT_NAME flags)
configure_package_config_file(cmake/tesseraConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/tesseraConfig.cmake
  INSTALL_DESTINATION ${package})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/tesseraConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tesseraConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/tesseraConfigVersion.cmake
  cmake/tessera_cuda.cmake cmake/cuda_interface.cpp.in cmake/hash_headers.cmake cmake/tessera_tpu.cmake cli/traced_kernel.cpp.in cli/traced_library.cpp.in
  DESTINATION ${package})
install(PROGRAMS cmake/name_the_line DESTINATION ${package})
