from minitx.cli import main

main()
