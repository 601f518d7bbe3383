# Writes OUT, a .cpp that holds the file IN as tessera::report::kPage. Run with cmake -P.
file(READ ${IN} page)
file(WRITE ${OUT} "#include \"report/page.hpp\"\nnamespace tessera::report {\nconst std::string_view kPage = R\"page(${page})page\";\n}\n")
