# Writes OUT, a .cpp that holds the Python program IN as tessera::tpu_compiler::kScript. Run with cmake -P.
file(READ ${IN} script)
file(WRITE ${OUT} "#include \"tpu_compiler/script.hpp\"\nnamespace tessera::tpu_compiler {\nconst char* const kScript = R\"script(${script})script\";\n}\n")
