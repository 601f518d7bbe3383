# Writes OUT, a .cpp that holds the file IN as tessera::report::NAME. Run with cmake -P.
file(READ ${IN} page)
file(WRITE ${OUT} "#include \"report/page.hpp\"\nnamespace tessera::report {\nconst std::string_view ${NAME} = R\"page(${page})page\";\n}\n")
