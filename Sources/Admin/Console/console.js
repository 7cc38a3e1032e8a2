document.title = "Tollgate";
