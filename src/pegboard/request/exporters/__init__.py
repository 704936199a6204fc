"""The providers' wire formats, one package or file each."""
