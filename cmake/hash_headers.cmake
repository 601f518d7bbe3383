# cmake -DSOURCE=... -DFOLDERS="a b" -DTEMPLATE=... -DOUT=... -P hash_headers.cmake
# OUT is TEMPLATE with HASH, the SHA-256 of all headers in these folders of SOURCE; it stays as it is if they do.
separate_arguments(FOLDERS)
set(all "")
foreach(folder ${FOLDERS})
  file(GLOB_RECURSE headers RELATIVE ${SOURCE} ${SOURCE}/${folder}/*.hpp)
  list(SORT headers)
  foreach(header ${headers})
    file(SHA256 ${SOURCE}/${header} hash)
    string(APPEND all "${header} ${hash}\n")
  endforeach()
endforeach()
string(SHA256 HASH "${all}")
configure_file(${TEMPLATE} ${OUT} @ONLY)
